//! Requests as bytes: head and body, ready to send.

use super::backend::{Backend, Reply};
use super::body::{BodyOptions, Content};
use super::form::Sound;
use serde_json::Value;
use std::fmt::Write;

/// Options common to all requests of a run.
#[derive(Debug, Clone)]
pub struct RequestOptions {
    /// `Host` header: host and port.
    pub host: String,
    /// Path of the endpoint.
    pub path: String,
    /// Further header lines, in order. A line replaces the standard line, or an earlier line, of the same name.
    pub headers: Vec<(String, String)>,
    /// Options of the bodies.
    pub body: BodyOptions,
}

/// A request that is ready to send.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Head and body.
    pub bytes: Vec<u8>,
    /// Prompt tokens by the dataset's count.
    pub prompt_len: u64,
    /// Number of output tokens to generate; 0 if none are asked for, or if their number is unknown.
    pub output_len: u64,
    /// Number of inputs in the request.
    pub sequences: u32,
    /// Duration of the audio in the request, in seconds.
    pub audio_s: f64,
}

impl RequestOptions {
    /// Returns head and body for one request.
    ///
    /// # Errors
    ///
    /// A sentence, if a rerank request has no documents, or a sound file cannot be read.
    pub fn request(&self, content: &Content<'_>) -> Result<Request, String> {
        let is_batch = content
            .prompt
            .and_then(Value::as_array)
            .is_some_and(|texts| texts.len() > 1);
        if self.body.backend == Backend::Rerank && !is_batch {
            return Err("a rerank request needs a query and documents; use dataset random-rerank".to_owned());
        }
        let fields = self.body.fields(content);
        let (mime, body, audio_s) = if self.body.backend == Backend::Audio {
            let sound = Sound::read(content.media)?;
            let boundary = sound.boundary();
            let mime = format!("multipart/form-data; boundary={boundary}");
            (mime, sound.form(&fields, &boundary), sound.seconds)
        } else {
            let body = Value::Object(fields).to_string().into_bytes();
            ("application/json".to_owned(), body, 0.0)
        };
        Ok(Request {
            bytes: self.bytes("POST", &self.path, &mime, (content.id, content.session), &body),
            prompt_len: content.prompt_len,
            output_len: content.output_len,
            sequences: content.sequences.unwrap_or(1),
            audio_s,
        })
    }

    /// A request to another path of the server, with the same headers.
    pub fn request_to(&self, method: &str, path: &str, body: &[u8]) -> Request {
        Request {
            bytes: self.bytes(method, path, "application/json", (None, None), body),
            sequences: 1,
            ..Request::default()
        }
    }

    /// Returns the format of the responses.
    pub fn reply(&self) -> Reply {
        let format = self.body.extra.get("encoding_format").and_then(Value::as_str);
        self.body.backend.reply(format)
    }

    fn bytes(&self, method: &str, path: &str, mime: &str, ids: (Option<&str>, Option<&str>), body: &[u8]) -> Vec<u8> {
        let id_headers = [("x-request-id", ids.0), ("x-session-id", ids.1)];
        let mut head = String::with_capacity(body.len() + 256);
        let length = body.len().to_string();
        // Writing to a string cannot fail.
        let _ = write!(head, "{method} {path} HTTP/1.1\r\n");
        let standard = [
            ("Host", self.host.as_str()),
            ("Content-Length", &length),
            ("Content-Type", mime),
            ("Accept", "*/*"),
            ("User-Agent", "vsweep"),
        ];
        let overridden = |name: &str, after: usize| {
            let mut later = self.headers[after..].iter();
            later.any(|(other, _)| other.eq_ignore_ascii_case(name))
                || id_headers
                    .iter()
                    .any(|(header, id)| id.is_some() && name.eq_ignore_ascii_case(header))
        };
        let standard = standard.into_iter().filter(|(name, _)| !overridden(name, 0));
        let own = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let own = (1..).zip(own).filter(|(after, (name, _))| !overridden(name, *after));
        let ids = id_headers.iter().filter_map(|(name, id)| Some((*name, (*id)?)));
        for (name, value) in standard.chain(own.map(|(_, header)| header)).chain(ids) {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
}
