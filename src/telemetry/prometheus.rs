//! Reads the load of a server at one moment from its `/metrics`, in Prometheus' text exposition format. Any text is accepted: lines that
//! are not samples are skipped.

/// One sample: a metric's name (with `_total`, `_count` and the like as written), its labels and its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// The name, such as `vllm:num_requests_running`.
    pub name: &'a str,
    /// The text between the braces; empty without labels.
    pub labels: &'a str,
    /// The value. A timestamp after it is ignored.
    pub value: f64,
}

impl<'a> Sample<'a> {
    /// Returns the value of a label as written, up to the first quote, even if that is escaped.
    pub fn label(&self, name: &str) -> Option<&'a str> {
        self.all_labels().find(|(key, _)| *key == name).map(|(_, value)| value)
    }

    /// Returns every label with its value, both as written.
    pub fn all_labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let mut rest = self.labels;
        std::iter::from_fn(move || {
            let (key, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_once('"')?;
            rest = after;
            Some((key.trim_start_matches(',').trim(), value))
        })
    }
}

/// Returns every sample of a text, in order.
pub fn samples(text: &str) -> impl Iterator<Item = Sample<'_>> {
    text.lines().filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let name_end = line.find(|c: char| c == '{' || c.is_ascii_whitespace())?;
    let (name, rest) = line.split_at(name_end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => {
            let end = labels_end(inner)?;
            (&inner[..end], &inner[end + 1..])
        }
        None => ("", rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    (!name.is_empty()).then_some(Sample { name, labels, value })
}

/// Returns the position of the closing brace. Quoted values may hold braces, and backslashes escape quotes.
fn labels_end(text: &str) -> Option<usize> {
    let mut quoted = false;
    let mut escaped = false;
    for (i, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'}' if !quoted => return Some(i),
            _ => {}
        }
    }
    None
}

/// One reading of a server. A figure that the text lacks is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Scrape {
    /// Requests in the batch, over all engines.
    pub running: Option<f64>,
    /// Requests that wait to enter the batch, over all engines.
    pub waiting: Option<f64>,
    /// Share of the KV cache in use, from 0 to 1: of the fullest engine.
    pub kv_cache_usage: Option<f64>,
    /// Preemptions since the server started.
    pub preemptions: Option<f64>,
    /// Prompt tokens looked up in the prefix cache since the server started.
    pub prefix_cache_queries: Option<f64>,
    /// Queried tokens that were found in the prefix cache.
    pub prefix_cache_hits: Option<f64>,
    /// Prompt tokens processed since the server started.
    pub prompt_tokens: Option<f64>,
    /// Tokens generated since the server started.
    pub generation_tokens: Option<f64>,
    /// Draft tokens of speculative decoding since the server started.
    pub draft_tokens: Option<f64>,
    /// Draft tokens that were accepted.
    pub accepted_tokens: Option<f64>,
}

/// Returns the number of tokens that an engine's KV cache holds, from its own label, else from the number and the size of its blocks.
pub fn cache_tokens(cache: &Sample<'_>) -> Option<u64> {
    let number = |name: &str| cache.label(name)?.parse::<u64>().ok();
    number("kv_cache_size_tokens").or_else(|| number("num_gpu_blocks")?.checked_mul(number("block_size")?))
}

impl Scrape {
    /// Reads a text of `/metrics`; `None` if it has no known metric.
    pub fn read(text: &str) -> Option<Scrape> {
        let mut scrape = Scrape::default();
        for sample in samples(text) {
            let Some(name) = sample.name.strip_prefix("vllm:") else {
                continue;
            };
            let add = |figure: &mut Option<f64>| *figure = Some(figure.unwrap_or(0.0) + sample.value);
            match name {
                "num_requests_running" => add(&mut scrape.running),
                "num_requests_waiting" => add(&mut scrape.waiting),
                // vLLM's older engine, V0, uses the second name.
                "kv_cache_usage_perc" | "gpu_cache_usage_perc" => {
                    let fullest = scrape.kv_cache_usage.unwrap_or(0.0).max(sample.value);
                    scrape.kv_cache_usage = Some(fullest);
                }
                "num_preemptions_total" => add(&mut scrape.preemptions),
                "prefix_cache_queries_total" => add(&mut scrape.prefix_cache_queries),
                "prefix_cache_hits_total" => add(&mut scrape.prefix_cache_hits),
                "prompt_tokens_total" => add(&mut scrape.prompt_tokens),
                "generation_tokens_total" => add(&mut scrape.generation_tokens),
                "spec_decode_num_draft_tokens_total" => add(&mut scrape.draft_tokens),
                "spec_decode_num_accepted_tokens_total" => add(&mut scrape.accepted_tokens),
                _ => {}
            }
        }
        (scrape != Scrape::default()).then_some(scrape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn labels_are_found_by_their_whole_name() {
        let sample = Sample {
            name: "vllm:cache_config_info",
            labels: r#"num_gpu_blocks_override="None",engine="0",num_gpu_blocks="16384""#,
            value: 1.0,
        };
        assert_eq!(sample.label("num_gpu_blocks"), Some("16384"));
        assert_eq!(sample.label("engine"), Some("0"));
        assert_eq!(sample.label("block_size"), None);
    }

    #[test]
    fn samples_are_read() {
        let text = "# HELP a b\n# TYPE a counter\na{x=\"}\\\"\",y=\"1\"} 3.5 1700000000\nb 1e3\nc{le=\"+Inf\"} +Inf\nbad\nd x\n";
        let read: Vec<_> = samples(text).map(|s| (s.name, s.labels, s.value)).collect();
        let expected = [
            ("a", "x=\"}\\\"\",y=\"1\"", 3.5),
            ("b", "", 1000.0),
            ("c", "le=\"+Inf\"", f64::INFINITY),
        ];
        assert_eq!(read, expected);
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in ".*") {
            for sample in samples(&text) {
                prop_assert!(text.contains(sample.name));
            }
        }

        #[test]
        fn what_is_written_is_read(name in "[a-z_:]{1,20}", label in "[^\"\\\\\r\n]{0,20}", value in any::<f64>()) {
            prop_assume!(!value.is_nan());
            let line = format!("{name}{{k=\"{label}\"}} {value}");
            let read: Vec<_> = samples(&line).collect();
            prop_assert_eq!(read.len(), 1);
            prop_assert_eq!((read[0].name, read[0].value), (name.as_str(), value));
        }
    }
}

#[cfg(test)]
mod scrape_tests {
    use super::*;

    #[test]
    fn engines_are_added_up_and_the_fullest_cache_counts() {
        let text = "vllm:num_requests_running{engine=\"0\"} 3.0\nvllm:num_requests_running{engine=\"1\"} 4.0\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\nvllm:kv_cache_usage_perc{engine=\"1\"} 0.5\n\
            vllm:num_preemptions_total 2\nvllm:num_preemptions_created 1.7e9\n";
        let scrape = Scrape::read(text).expect("known figures");
        assert_eq!((scrape.running, scrape.kv_cache_usage), (Some(7.0), Some(0.5)));
        assert_eq!((scrape.preemptions, scrape.waiting), (Some(2.0), None));
    }

    #[test]
    fn a_text_without_known_figures_says_nothing() {
        assert_eq!(Scrape::read("process_cpu_seconds_total 3\n<html>"), None);
    }
}
