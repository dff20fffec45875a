//! Request bodies of the transcription API: a multipart form with a sound file and the fields of the request.

use serde_json::{Map, Value};
use std::path::Path;

/// A sound file to send.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sound {
    name: String,
    bytes: Vec<u8>,
    /// Duration in seconds.
    pub seconds: f64,
}

impl Sound {
    /// Reads the file that `{"audio_path": …}` names. It must be a WAV file, because the duration is read from its header.
    pub fn read(media: Option<&Value>) -> Result<Sound, String> {
        let path = media.and_then(|media| media["audio_path"].as_str());
        let path = path.ok_or("a request to transcribe has no audio_path; use a dataset of sound files")?;
        let bytes = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
        let seconds = wav_seconds(&bytes).ok_or_else(|| format!("{path} is not a WAV file; convert it to WAV"))?;
        let name = Path::new(path).file_name().unwrap_or_default();
        let name = name.to_string_lossy().replace(['"', '\r', '\n'], "_");
        Ok(Sound { name, bytes, seconds })
    }

    /// Returns the body, whose parts `boundary` separates. Booleans and null are written as by Python's `str`.
    pub fn form(&self, fields: &Map<String, Value>, boundary: &str) -> Vec<u8> {
        let head = |name: &str| format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
        let mut body = head("file").into_bytes();
        body.extend(format!("; filename=\"{}\"\r\nContent-Type: audio/wav\r\n\r\n", self.name).bytes());
        body.extend(&self.bytes);
        for (name, value) in fields {
            let value = match value {
                Value::Bool(true) => "True".to_owned(),
                Value::Bool(false) => "False".to_owned(),
                Value::Null => "None".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            body.extend(format!("\r\n{}\r\n\r\n{value}", head(name)).bytes());
        }
        body.extend(format!("\r\n--{boundary}--\r\n").bytes());
        body
    }

    /// A boundary that does not occur in the file.
    pub fn boundary(&self) -> String {
        let candidates = (0u64..).map(|i| format!("vsweep-{i:016x}"));
        let is_free = |boundary: &String| memchr::memmem::find(&self.bytes, boundary.as_bytes()).is_none();
        candidates.into_iter().find(is_free).unwrap_or_default()
    }
}

/// Duration of a WAV file in seconds: bytes of data, divided by bytes per second. `None` for a file of another format.
fn wav_seconds(bytes: &[u8]) -> Option<f64> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    if bytes.get(..4)? != b"RIFF" || bytes.get(8..12)? != b"WAVE" {
        return None;
    }
    let (mut at, mut rate) = (12, None);
    loop {
        let (name, size) = (bytes.get(at..at + 4)?, word(at + 4)? as usize);
        match name {
            b"fmt " => rate = Some(word(at + 16)?),
            b"data" => {
                // Streaming writers put the largest size there, because they do not know the actual one yet.
                let data = size.min(bytes.len() - at - 8);
                return rate.filter(|rate| *rate > 0).map(|rate| data as f64 / f64::from(rate));
            }
            _ => {}
        }
        at = at.checked_add(8)?.checked_add(size)?.checked_add(size % 2)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn wav(samples: usize) -> Vec<u8> {
        let data = samples * 2;
        let mut bytes = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
        bytes.extend(8000u32.to_le_bytes());
        bytes.extend(16_000u32.to_le_bytes());
        bytes.extend(b"\x02\0\x10\0data");
        bytes.extend((data as u32).to_le_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    #[test]
    fn a_sound_and_its_fields_become_a_form() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.wav");
        std::fs::write(&path, wav(4000)).expect("written");
        let sound = Sound::read(Some(&json!({"audio_path": path}))).expect("a WAV file");
        assert_eq!(sound.seconds, 0.5);
        let fields = json!({"model": "m", "stream": true, "max_completion_tokens": 3});
        let form = sound.form(fields.as_object().expect("an object"), "B");
        let text = String::from_utf8_lossy(&form).replace('\0', "");
        assert!(text.starts_with("--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\nRIFF"));
        assert!(text.ends_with("\r\n--B\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\nTrue\r\n--B\r\nContent-Disposition: form-data; name=\"max_completion_tokens\"\r\n\r\n3\r\n--B--\r\n"));
        assert!(Sound::read(None).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(tail in prop::collection::vec(any::<u8>(), 0..60)) {
            wav_seconds(&tail);
            wav_seconds(&[&b"RIFF\0\0\0\0WAVE"[..], &tail].concat());
        }
    }
}
