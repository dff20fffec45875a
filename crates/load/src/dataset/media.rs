//! Pictures and sounds of dataset files as parts of a message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// A picture as a part of a message: by its address, where a bare path is one on the server's disk, or, with `as_data`, by
/// its bytes.
pub(super) fn image(address: &str, as_data: bool) -> Result<Value, String> {
    let url = match as_data && !address.starts_with("data:") {
        true => data_url(address)?,
        false => url_of(address),
    };
    Ok(json!({"type": "image_url", "image_url": {"url": url}}))
}

/// A film by its address.
pub(super) fn video(address: &str) -> Value {
    json!({"type": "video_url", "video_url": {"url": url_of(address)}})
}

/// A WAV file as a part of a message, by its bytes.
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
    std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}; correct the path"))
}

/// The kind of a picture by its first bytes.
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
