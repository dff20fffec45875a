//! The datasets `custom_image` and `custom_audio`: texts of one's own with pictures or sounds beside them.

use super::rows::{Row, Rows};
use super::{Item, Prompt, Sampling, Vocabulary, media};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Settings of the `custom_image` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomImage {
    /// A file with columns `prompt` and `image_files`, or a column `content`: parts of a message, texts and pictures.
    pub path: PathBuf,
    /// Output tokens; unset means those in the column `output_tokens`.
    pub output_len: Option<u64>,
    /// Send the bytes of pictures rather than their addresses.
    pub as_data: bool,
}

/// Settings of the `custom_audio` dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomAudio {
    /// A file with columns `audio`, the path of a WAV file, and perhaps `prompt`.
    pub path: PathBuf,
    /// Output tokens; unset means those in the column `output_tokens`.
    pub output_len: Option<u64>,
    /// Send sounds as parts of a message rather than as files to transcribe.
    pub as_message: bool,
}

impl CustomImage {
    /// Draws the requests.
    pub fn draw(&self, sampling: &Sampling, vocabulary: &Vocabulary<'_>) -> Result<Vec<Item>, String> {
        let rows = Rows::read(&self.path)?;
        let items = sampling.gather(sampling.shuffled(rows.rows.iter().collect()), |index, row| {
            let (prompt, text, beside) = match row.fields.get("content") {
                Some(content) => {
                    let parts = self.parts(content).map_err(|problem| rows.wrong(row, &problem))?;
                    let text = parts.iter().filter_map(|part| part["text"].as_str()).collect();
                    (Prompt::Parts(parts.into()), text, None)
                }
                None => {
                    let text = rows.text(row, "prompt")?;
                    let images = self.images(row).map_err(|problem| rows.wrong(row, &problem))?;
                    (Prompt::Text(text.clone()), text, Some(images.into()))
                }
            };
            let output_len = rows.output_len(row, self.output_len)?;
            let mut item = Item::new(index, prompt, vocabulary.count(&text)?, output_len);
            item.media = beside;
            Ok(Some(item))
        })?;
        Ok(sampling.filled_up(items))
    }

    fn images(&self, row: &Row) -> Result<Vec<Value>, String> {
        let files = row.fields.get("image_files").and_then(Value::as_array);
        let files = files
            .filter(|files| !files.is_empty())
            .ok_or("\"image_files\" is no list of paths; add it, or write the message as \"content\"")?;
        let image = |file: &Value| {
            media::image(
                file.as_str().ok_or("an image file that is no text; write its path")?,
                self.as_data,
            )
        };
        files.iter().map(image).collect()
    }

    /// The parts of a message, with pictures in the form of the API.
    fn parts(&self, content: &Value) -> Result<Vec<Value>, String> {
        let parts = content.as_array().filter(|parts| !parts.is_empty());
        let parts = parts.ok_or("\"content\" is no list of parts; write [{\"type\": \"text\", \"text\": …}, …]")?;
        parts.iter().map(|part| self.part(part)).collect()
    }

    fn part(&self, part: &Value) -> Result<Value, String> {
        let wrong = || format!("a part of \"content\" is {part}; write a text, or a picture with its path");
        match part["type"].as_str() {
            Some("text") => Ok(json!({"type": "text", "text": part["text"].as_str().ok_or_else(wrong)?})),
            Some("image") => media::image(part["image"].as_str().ok_or_else(wrong)?, self.as_data),
            Some("image_url") => {
                let given = &part["image_url"];
                let address = given.as_str().or_else(|| given["url"].as_str()).ok_or_else(wrong)?;
                let mut image = media::image(address, self.as_data)?;
                // How closely to look, and the like.
                for (key, value) in given.as_object().into_iter().flatten().filter(|(key, _)| *key != "url") {
                    image["image_url"][key] = value.clone();
                }
                Ok(image)
            }
            _ => Err(wrong()),
        }
    }
}

impl CustomAudio {
    /// Draws the requests.
    pub fn draw(&self, sampling: &Sampling, vocabulary: &Vocabulary<'_>) -> Result<Vec<Item>, String> {
        let rows = Rows::read(&self.path)?;
        let items = sampling.gather(sampling.shuffled(rows.rows.iter().collect()), |index, row| {
            let path = rows.text(row, "audio")?;
            let text = match row.fields.contains_key("prompt") {
                true => rows.text(row, "prompt")?,
                false => String::new(),
            };
            let prompt_len = vocabulary.count(&text)?;
            let output_len = rows.output_len(row, self.output_len)?;
            let mut item = Item::new(index, Prompt::Text(text), prompt_len, output_len);
            item.media = Some(match self.as_message {
                true => media::sound(&path).map_err(|problem| rows.wrong(row, &problem))?,
                false => json!({"audio_path": path}),
            });
            Ok(Some(item))
        })?;
        Ok(sampling.filled_up(items))
    }
}
