//! Values that follow another parameter: `num_prompts = { per = "max_concurrency", times = 10, min = 64 }`.

use super::{Reader, table};
use crate::{Node, number, spelling};
use serde_json::{Number, Value};

table! {
    /// A value that follows another parameter: `per * times`, at least `min`, at most `max`. Counts and lengths are rounded
    /// up to whole numbers.
    #[derive(Debug, Clone, PartialEq)]
    pub struct Derived("DerivedTable", "") {
        /// Name of the parameter it follows, in the same table.
        pub per: String = key().required("this value follows no parameter", "add per = \"a parameter's name\""),
        /// Factor. Default: 1.
        pub times: f64 = by::<f64, _>(decimal).or(1.0),
        /// Lower bound of the result.
        pub min: Option<f64> = maybe::<f64, _>(decimal),
        /// Upper bound of the result.
        pub max: Option<f64> = maybe::<f64, _>(decimal),
    }
    then Derived::check
}

/// A number that is not negative.
fn decimal(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<f64> {
    node.number().filter(|value| *value >= 0.0).or_else(|| {
        let message = format!("`{what}` must be a number, not negative");
        reader.refuse(node.span, message, "write a number such as 10 or 0.5")
    })
}

impl Derived {
    fn check(&mut self, reader: &mut Reader<'_>, node: &Node) {
        if self.min.zip(self.max).is_some_and(|(min, max)| min > max) {
            reader.object(node.span, "`min` is above `max`", "exchange them");
        }
    }

    /// Returns the value that the parameter `name` derives from another's value. `None` if that is not a number or the result is not
    /// finite.
    pub fn value(&self, name: &str, followed: &Value) -> Option<Value> {
        let value = number(followed)? * self.times;
        let value = value
            .max(self.min.unwrap_or(f64::NEG_INFINITY))
            .min(self.max.unwrap_or(f64::INFINITY));
        // Noise of the multiplication beyond 12 digits would make a whole result fractional.
        let value: f64 = format!("{value:.11e}").parse().ok()?;
        let value = if is_count(name) { value.ceil() } else { value };
        match value.fract() == 0.0 && value.abs() < 9.0e15 {
            true => Some(Value::from(value as i64)),
            false => Number::from_f64(value).map(Value::Number),
        }
    }
}

/// Returns true if a parameter counts something, so that fractions make no sense.
fn is_count(name: &str) -> bool {
    let name = spelling::canonical(name);
    name.starts_with("num_") || name.contains("_num_") || name.ends_with("_len") || name == "max_concurrency"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn derived(times: f64, min: Option<f64>, max: Option<f64>) -> Derived {
        Derived {
            per: "max_concurrency".into(),
            times,
            min,
            max,
        }
    }

    #[test]
    fn a_value_follows_within_its_bounds() {
        let tenfold = derived(10.0, Some(64.0), Some(1000.0));
        let of = |value: Value| tenfold.value("num_prompts", &value);
        assert_eq!(of(json!(1)), Some(json!(64)));
        assert_eq!(of(json!(32)), Some(json!(320)));
        assert_eq!(of(json!("inf")), Some(json!(1000)));
        assert_eq!(of(json!(6.45)), Some(json!(65)));
        assert_eq!(of(json!("many")), None);
    }

    #[test]
    fn only_counts_are_rounded() {
        assert_eq!(
            derived(0.1, None, None).value("request_rate", &json!(3)),
            Some(json!(0.3))
        );
        assert_eq!(derived(0.1, None, None).value("num_prompts", &json!(3)), Some(json!(1)));
        assert_eq!(derived(1.0, None, None).value("num_prompts", &json!("inf")), None);
    }
}
