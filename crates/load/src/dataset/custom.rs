//! The user's own datasets: `custom` (texts), `custom_image` and `custom_audio` (texts with pictures or sounds).

use super::kind::PATH;
use super::source::rows::{self, DataRow};
use super::{Dataset, Draw, Item, Kind, Prompt, Traits};
use crate::Backend;
use crate::params::{FromParam, Param, ParamReader, Takes, param};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use vsweep_base::files::read_named_file;

pub(super) const TEXT: Kind = Kind::of::<Custom>("custom", "texts of your own");
pub(super) const IMAGE: Kind = Kind::of::<CustomImage>("custom_image", "texts of your own with pictures");
pub(super) const AUDIO: Kind = Kind::of::<CustomAudio>("custom_audio", "sounds to transcribe, or to answer");

const OUTPUT_LEN: Param = param("custom_output_len").or("output_len").least(1).default("256");

crate::params! {
    /// The `custom` dataset.
    pub struct Custom {
        /// A file with a column `prompt`.
        path: PathBuf = PATH,
        /// Output tokens; -1 takes the column output_tokens.
        output_len: OutputLen = OUTPUT_LEN,
    }
}

crate::params! {
    /// The `custom_image` dataset.
    pub struct CustomImage {
        /// A file with a column `prompt` and a list `image_files`, or with a list `content`.
        path: PathBuf = PATH,
        /// Output tokens; -1 takes the column output_tokens.
        output_len: OutputLen = OUTPUT_LEN,
        /// Send the bytes of custom_image's pictures, not their addresses.
        as_data: bool = param("custom_ensure_client_side_data"),
    }
}

crate::params! {
    /// The `custom_audio` dataset.
    pub struct CustomAudio {
        /// A file with a column `audio`, and maybe one `prompt`.
        path: PathBuf = PATH,
        /// Output tokens; -1 takes the column output_tokens.
        output_len: OutputLen = OUTPUT_LEN,
        /// Send media in messages.
        in_messages: bool = param("enable_multimodal_chat").otherwise("always so for openai-chat"),
    }
}

/// Output tokens of each row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLen {
    /// One number for all.
    Fixed(u64),
    /// The number in the column `output_tokens`.
    Column,
}

impl FromParam for OutputLen {
    const TAKES: Takes = Takes::Number;

    fn from_param(param: &Param, value: &Value) -> Result<Self, String> {
        match f64::from_param(param, value) {
            Ok(-1.0) => Ok(OutputLen::Column),
            _ => match u64::from_param(param, value) {
                Ok(length) => Ok(OutputLen::Fixed(length)),
                Err(_) => Err(param.wrong(value, "a whole number of at least 1, or -1")),
            },
        }
    }
}

impl OutputLen {
    fn of(self, row: &DataRow) -> Result<u64, String> {
        match self {
            OutputLen::Fixed(length) => Ok(length),
            OutputLen::Column => row.count("output_tokens"),
        }
    }
}

impl Dataset for Custom {
    fn traits(&self) -> Traits {
        Traits {
            wants_template: true,
            takes_every_row: true,
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let rows = rows::read(&self.path)?;
        draw.each_row(rows.iter().collect(), |index, row| {
            let output_len = self.output_len.of(row)?;
            draw.text_item(index, row.text("prompt")?, output_len)
        })
    }
}

impl Dataset for CustomImage {
    fn traits(&self) -> Traits {
        Traits {
            takes_every_row: true,
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, _: usize, reader: &mut ParamReader<'_>) {
        if !backend.takes_pictures() {
            reader.problem("dataset_name custom_image sends pictures in messages; set backend to openai-chat");
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let rows = rows::read(&self.path)?;
        draw.each_row(rows.iter().collect(), |index, row| {
            let (prompt, text, media) = match row.fields.get("content") {
                Some(content) => {
                    let parts = self.parts(content).map_err(|problem| row.wrong(&problem))?;
                    let text = parts.iter().filter_map(|part| part["text"].as_str()).collect();
                    (Prompt::Parts(parts.into()), text, None)
                }
                None => {
                    let text = row.text("prompt")?;
                    let images = self.images(row).map_err(|problem| row.wrong(&problem))?;
                    (Prompt::Text(text.clone()), text, Some(images.into()))
                }
            };
            let output_len = self.output_len.of(row)?;
            let mut item = Item::new(index, prompt, draw.vocabulary.count(&text)?, output_len);
            item.media = media;
            Ok(item)
        })
    }
}

impl CustomImage {
    fn images(&self, row: &DataRow) -> Result<Vec<Value>, String> {
        let files = row.fields.get("image_files").and_then(Value::as_array);
        let files = files
            .filter(|files| !files.is_empty())
            .ok_or("\"image_files\" is not a list of paths; add it, or write the message as \"content\"")?;
        let image = |file: &Value| {
            image(
                file.as_str()
                    .ok_or("an image file that is not a string; write its path")?,
                self.as_data,
            )
        };
        files.iter().map(image).collect()
    }

    /// The parts of a message, with pictures in the form of the API.
    fn parts(&self, content: &Value) -> Result<Vec<Value>, String> {
        let parts = content.as_array().filter(|parts| !parts.is_empty());
        let parts = parts.ok_or("\"content\" is not a list of parts; write [{\"type\": \"text\", \"text\": …}, …]")?;
        parts.iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &Value) -> Result<Value, String> {
        let wrong = || format!("a part of \"content\" is {part}; write a text, or a picture with its path");
        match part["type"].as_str() {
            Some("text") => Ok(json!({"type": "text", "text": part["text"].as_str().ok_or_else(wrong)?})),
            Some("image") => image(part["image"].as_str().ok_or_else(wrong)?, self.as_data),
            Some("image_url") => {
                let given = &part["image_url"];
                let address = given.as_str().or_else(|| given["url"].as_str()).ok_or_else(wrong)?;
                let mut image = image(address, self.as_data)?;
                // Further keys of the API, such as `detail`.
                for (key, value) in given.as_object().into_iter().flatten().filter(|(key, _)| *key != "url") {
                    image["image_url"][key] = value.clone();
                }
                Ok(image)
            }
            _ => Err(wrong()),
        }
    }
}

impl Dataset for CustomAudio {
    fn traits(&self) -> Traits {
        Traits {
            takes_every_row: true,
            ..Traits::default()
        }
    }

    fn check(&self, backend: Backend, _: usize, reader: &mut ParamReader<'_>) {
        match backend {
            Backend::Audio if self.in_messages => {
                reader.problem("enable_multimodal_chat sends sounds in messages; set backend to openai-chat");
            }
            Backend::Audio | Backend::Chat => {}
            _ => reader.problem("dataset_name custom_audio needs backend openai-audio or openai-chat; set one of them"),
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        let rows = rows::read(&self.path)?;
        draw.each_row(rows.iter().collect(), |index, row| {
            let path = row.text("audio")?;
            let text = match row.fields.contains_key("prompt") {
                true => row.text("prompt")?,
                false => String::new(),
            };
            let prompt_len = draw.vocabulary.count(&text)?;
            let output_len = self.output_len.of(row)?;
            let mut item = Item::new(index, Prompt::Text(text), prompt_len, output_len);
            item.media = Some(match draw.backend {
                Backend::Audio => json!({"audio_path": path}),
                _ => sound(&path).map_err(|problem| row.wrong(&problem))?,
            });
            Ok(item)
        })
    }
}

/// A picture as a part of a message. With `as_data` the bytes of the picture are sent, else its address. An address that is a bare path
/// names a file on the server's disk.
pub(super) fn image(address: &str, as_data: bool) -> Result<Value, String> {
    let url = match as_data && !address.starts_with("data:") {
        true => data_url(address)?,
        false => url_of(address),
    };
    Ok(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// A video as a part of a message, sent as its address.
pub(super) fn video(address: &str) -> Value {
    json!({"type": "video_url", "video_url": {"url": url_of(address)}})
}

/// A WAV file as a part of a message, sent as its bytes.
pub(super) fn sound(path: &str) -> Result<Value, String> {
    let bytes = read(path)?;
    if !(bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WAVE")) {
        return Err(format!("{path} is not a WAV file; convert it to WAV"));
    }
    Ok(json!({"type": "input_audio", "input_audio": {"data": STANDARD.encode(bytes), "format": "wav"}}))
}

fn url_of(address: &str) -> String {
    let has_scheme = ["http://", "https://", "file://", "data:"]
        .iter()
        .any(|scheme| address.starts_with(scheme));
    if has_scheme {
        address.to_owned()
    } else {
        format!("file://{address}")
    }
}

fn data_url(address: &str) -> Result<String, String> {
    if address.starts_with("http://") || address.starts_with("https://") {
        return Err(format!(
            "{address} is not on this disk; download it, or unset custom_ensure_client_side_data"
        ));
    }
    let path = address.strip_prefix("file://").unwrap_or(address);
    let bytes = read(path)?;
    let kind = kind_of(&bytes).ok_or_else(|| format!("{path} is not a JPEG, PNG, GIF, WebP or BMP; convert it"))?;
    Ok(format!("data:image/{kind};base64,{}", STANDARD.encode(bytes)))
}

fn read(path: &str) -> Result<Vec<u8>, String> {
    read_named_file(Path::new(path)).map_err(|error| format!("cannot read {path}: {error}; correct the path"))
}

/// The format of a picture, recognised by its first bytes.
fn kind_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0xff, 0xd8, 0xff, ..] => Some("jpeg"),
        [0x89, b'P', b'N', b'G', ..] => Some("png"),
        [b'G', b'I', b'F', b'8', ..] => Some("gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("webp"),
        [b'B', b'M', ..] => Some("bmp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_sent_and_bytes_only_when_asked_for() {
        let url = |address: &str| image(address, false).expect("an address")["image_url"]["url"].clone();
        assert_eq!(url("a/b.png"), "file://a/b.png");
        assert_eq!(url("https://x/b.png"), "https://x/b.png");
        assert_eq!(video("v.mp4")["video_url"]["url"], "file://v.mp4");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("p.bin");
        let name = path.to_str().expect("plain");
        std::fs::write(&path, b"GIF89a").expect("written");
        let part = image(&format!("file://{name}"), true).expect("a picture");
        assert_eq!(part["image_url"]["url"], "data:image/gif;base64,R0lGODlh");
        assert_eq!(
            image("data:image/png;base64,AA", true).expect("kept")["image_url"]["url"],
            "data:image/png;base64,AA"
        );
        assert!(image("http://x/y.png", true).is_err_and(|why| why.contains("download")));
        std::fs::write(&path, b"text").expect("written");
        assert!(image(name, true).is_err_and(|why| why.contains("convert")));
        assert!(sound(name).is_err_and(|why| why.contains("WAV")));
        assert!(image("/nowhere/x.png", true).is_err_and(|why| why.contains("cannot read")));
    }
}
