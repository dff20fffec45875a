//! The `random-mm` dataset: random texts, each with images of random pixels.

use super::random::Random;
use super::{Dataset, Draw, Item, Kind, Material, Traits};
use crate::Backend;
use crate::params::{Declared, FromParam, Param, ParamReader, Takes, json_of};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use serde_json::{Value, json};
use vsweep_metrics::rng::NumpyPcg64;

pub(super) const KIND: Kind =
    Kind::of::<RandomMm>("random-mm", "the same with images of random pixels, in one message");

/// Quality of JPEG files: the default of Pillow, the Python library that vLLM uses.
const JPEG_QUALITY: u8 = 75;

/// The `random-mm` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct RandomMm {
    /// The text of each request.
    pub text: Random,
    /// Images of each request.
    pub images: Images,
}

impl Declared for RandomMm {
    const TABLES: &'static [&'static [Param]] = &[Random::PARAMS, Images::PARAMS];

    fn declared(reader: &mut ParamReader<'_>) -> Self {
        RandomMm {
            text: Random::read(reader),
            images: Images::read(reader),
        }
    }
}

crate::params! {
    /// Images that accompany random texts.
    pub struct Images {
        /// Mean images per request.
        mean: u64 = param("random_mm_base_items_per_request").default("1"),
        /// Spread of the number of images, 0 to 1.
        ratio: f64 = param("random_mm_num_mm_items_range_ratio")
            .within("a number from 0 to 1", |ratio| (0.0..=1.0).contains(&ratio))
            .default("0"),
        /// Most images per request.
        most: MostImages = param("random_mm_limit_mm_per_prompt").default("{\"image\": 255}"),
        /// Sizes of images and their shares.
        buckets: Buckets = param("random_mm_bucket_config").default("{(256, 256, 1): 0.5, (720, 1280, 1): 0.5}"),
    }
}

/// Maximum number of images in a request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MostImages(pub u64);

/// Reads `{"image": 4}`. Limits of other media are ignored.
impl FromParam for MostImages {
    const TAKES: Takes = Takes::Json;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let limits = json_of(value);
        let image = limits
            .as_object()
            .map(|limits| limits.get("image").map_or(Some(255), Value::as_u64));
        let wrong = || param.wrong(value, "{\"image\": 4}, with a whole number");
        image.flatten().map(MostImages).ok_or_else(wrong)
    }
}

/// Sizes of images.
#[derive(Debug, Clone, PartialEq)]
pub struct Buckets(pub Vec<Bucket>);

/// A size of images, and how often it is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bucket {
    /// Pixels from top to bottom.
    pub height: u16,
    /// Pixels from left to right.
    pub width: u16,
    /// Weight with which it is drawn, relative to the other buckets.
    pub weight: f64,
}

/// Reads `{"(256, 256, 1)": 0.5}`, as JSON or as a Python dictionary. The keys are tuples of height, width and frames.
impl FromParam for Buckets {
    const TAKES: Takes = Takes::Json;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        let name = param.name;
        let wrong = || {
            format!(
                "{name} is {value}; write {{\"(256, 256, 1)\": 0.5, …}}: height, width and frames of \
                 each size, and its share above 0"
            )
        };
        // A Python dictionary is valid JSON once its tuples are in quotes.
        let quoted = |text: &str| text.replace('(', "\"(").replace(')', ")\"");
        let sizes = match (json_of(value), value) {
            (Value::Null, Value::String(python)) => json_of(&quoted(python).into()),
            (sizes, _) => sizes,
        };
        let pairs = sizes.as_object().ok_or_else(wrong)?;
        let mut buckets = Vec::new();
        for (key, weight) in pairs {
            let weight = weight.as_f64().ok_or_else(wrong)?;
            let numbers: Vec<u16> = key
                .split(|c: char| !c.is_ascii_digit())
                .filter(|digits| !digits.is_empty())
                .map(|digits| digits.parse().map_err(|_| wrong()))
                .collect::<Result<_, _>>()?;
            let (height @ 1.., width @ 1.., frames) = (match numbers[..] {
                [height, width, frames] => (height, width, frames),
                _ => return Err(wrong()),
            }) else {
                return Err(wrong());
            };
            if !weight.is_finite() || weight < 0.0 {
                return Err(wrong());
            }
            if frames > 1 && weight > 0.0 {
                return Err(format!(
                    "{name} has a video of {frames} frames, and only images can be made; \
                     write 1 as the third number of {key}, or give it the share 0"
                ));
            }
            buckets.extend((weight > 0.0).then_some(Bucket { height, width, weight }));
        }
        if buckets.is_empty() {
            return Err(wrong());
        }
        Ok(Buckets(buckets))
    }
}

impl Bucket {
    /// Returns an image of random pixels as a data URL.
    fn image(&self, random: &mut NumpyPcg64) -> Result<String, String> {
        let pixels = random.bytes(usize::from(self.height) * usize::from(self.width) * 3);
        let mut jpeg = Vec::new();
        let mut encoder = Encoder::new(&mut jpeg, JPEG_QUALITY);
        encoder.set_sampling_factor(SamplingFactor::F_2_2);
        encoder
            .encode(&pixels, self.width, self.height, ColorType::Rgb)
            .map_err(|error| format!("cannot make an image: {error}"))?;
        Ok(format!("data:image/jpeg;base64,{}", STANDARD.encode(jpeg)))
    }
}

impl Dataset for RandomMm {
    fn traits(&self) -> Traits {
        Traits {
            made_of: Material::Vocabulary,
            fixes_outputs: true,
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, num_prompts: usize, reader: &mut ParamReader<'_>) {
        if !backend.takes_pictures() {
            reader.problem("dataset_name random-mm sends images in messages; set backend to openai-chat");
        }
        self.text.check(backend, num_prompts, reader);
    }

    fn round_size(&self) -> Option<usize> {
        Some(256)
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let (sampling, vocabulary) = (draw.sampling, draw.vocabulary);
        let mut random = NumpyPcg64::new(sampling.seed);
        let outline = self
            .text
            .outline(sampling.num_prompts, vocabulary, vocabulary.unmarked()?, &mut random)?;
        let mut items = Vec::with_capacity(sampling.num_prompts);
        for i in 0..sampling.num_prompts {
            let mut pad = |ids| random.id(ids);
            let (text, ids) = vocabulary.settle(outline.draft(i), &mut pad)?;
            let mut images = vec![];
            for _ in 0..self.images.count(&mut random) {
                let url = self.images.bucket(&mut random).image(&mut random)?;
                images.push(json!({"type": "image_url", "image_url": {"url": url}}));
            }
            let (length, output) = (ids.len() as u64, outline.lengths.output[i]);
            let mut item = Item::new(i, text, length, output);
            item.media = Some(images.into());
            items.push(item);
        }
        Ok(items)
    }
}

impl Images {
    /// Draws the number of images of a request.
    pub fn count(&self, random: &mut NumpyPcg64) -> u64 {
        let least = (self.mean as f64 * (1.0 - self.ratio)).floor().max(0.0) as u64;
        let most = (self.mean as f64 * (1.0 + self.ratio)).ceil() as u64;
        let most = most.min(self.most.0);
        random.integer(least.min(most), most + 1)
    }

    /// Draws the size of an image.
    pub fn bucket(&self, random: &mut NumpyPcg64) -> Bucket {
        let weights: Vec<f64> = self.buckets.0.iter().map(|bucket| bucket.weight).collect();
        // Rounding errors of the cumulative sum could give an index past the last bucket.
        self.buckets.0[random.weighted(&weights).min(self.buckets.0.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_whole_number() {
        let read = |value: &Value| MostImages::from_param(&crate::params::param("most"), value);
        assert_eq!(read(&json!({"image": 2, "video": 0})), Ok(MostImages(2)));
        assert_eq!(read(&json!("{}")), Ok(MostImages(255)));
        for wrong in [
            json!({"image": 2.5}),
            json!({"image": "2"}),
            json!({"image": -1}),
            json!(2),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_read_in_both_forms() {
        let read = |value: &Value| Buckets::from_param(&crate::params::param("buckets"), value);
        let bucket = |height, width| Bucket {
            height,
            width,
            weight: 0.5,
        };
        let usual = Ok(Buckets(vec![bucket(256, 256), bucket(720, 1280)]));
        let python = json!("{(256, 256, 1): 0.5, (720, 1280, 1): 0.5, (720, 1280, 16): 0.0}");
        assert_eq!(read(&python), usual);
        let object = json!({"(256, 256, 1)": 0.5, "720x1280x1": 0.5});
        assert_eq!(read(&object), usual);
        for wrong in [
            json!("{}"),
            json!("{(1, 2): 1}"),
            json!({"(1,2,1)": -1}),
            json!({"(0,2,1)": 1}),
            json!({"(99999,2,1)": 1}),
            json!({"(8,8,4)": 1}),
            json!(3),
        ] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
