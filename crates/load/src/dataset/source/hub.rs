//! Downloads the files of a dataset from the Hugging Face Hub, once, into the folder where the Hub's own tools keep them.
//!
//! `HF_ENDPOINT` names another Hub. `HF_TOKEN` is sent only to the Hub, and is never shown. `HF_HUB_OFFLINE` forbids all requests.

use reqwest::header::{AUTHORIZATION, HeaderValue};
use serde_json::Value;
use std::env;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use vsweep_base::files::temporary_name;

const ENDPOINT: &str = "https://huggingface.co";
/// Time limit for the beginning of an answer, and for each further piece of a file.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Address of a Hub, and settings for downloads from it.
#[derive(Clone)]
pub(in crate::dataset) struct Hub {
    /// Base URL.
    pub endpoint: String,
    /// The token, if there is one.
    pub token: Option<String>,
    /// True if only files that were downloaded earlier may be used.
    pub is_offline: bool,
    /// The folder of downloaded files.
    pub cache: PathBuf,
}

impl Hub {
    /// Returns the Hub that the environment variables describe.
    pub fn from_env() -> Result<Hub, String> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        Ok(Hub {
            endpoint: variable("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned()),
            token: variable("HF_TOKEN"),
            is_offline: variable("HF_HUB_OFFLINE").is_some_and(|value| value != "0"),
            cache: cache().ok_or("there is no place for downloads; set HF_HOME")?,
        })
    }

    /// Returns the paths of the dataset's files that `choose` selects by their names. Downloads those that are missing.
    pub fn fetch(
        &self,
        id: &str,
        choose: impl Fn(&[String]) -> Result<Vec<String>, String>,
    ) -> Result<Vec<PathBuf>, String> {
        if !is_name(id) {
            return Err(format!(
                "there is no file or folder {id}, and it is not a name of the form ORG/DATASET; check dataset_path"
            ));
        }
        let folder = self.cache.join(format!("datasets--{}", id.replace('/', "--")));
        if self.is_offline {
            let commit = fs::read_to_string(folder.join("refs/main")).map_err(|_| {
                format!(
                    "the dataset {id} is not in {}, and HF_HUB_OFFLINE is set; unset it",
                    self.cache.display()
                )
            })?;
            let snapshot = folder.join("snapshots").join(commit.trim());
            let chosen = choose(&super::split::names_below(&snapshot)?)?;
            return Ok(chosen.iter().map(|name| snapshot.join(name)).collect());
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start a download: {error}"))?;
        runtime.block_on(self.download(id, &folder, choose))
    }

    async fn download(
        &self,
        id: &str,
        folder: &Path,
        choose: impl Fn(&[String]) -> Result<Vec<String>, String>,
    ) -> Result<Vec<PathBuf>, String> {
        let client = self.client()?;
        let base = self.endpoint.trim_end_matches('/');
        let listing = self
            .get(&client, &format!("{base}/api/datasets/{id}/revision/main"))
            .await?;
        let listing = listing.bytes().await.map_err(|error| self.download_error(&error))?;
        let listing: Value = serde_json::from_slice(&listing)
            .map_err(|_| format!("{} gave no list of files of {id}; check HF_ENDPOINT", self.endpoint))?;
        let commit = listing["sha"]
            .as_str()
            .filter(|commit| is_plain(commit))
            .unwrap_or("main");
        let files = listing["siblings"].as_array().map(Vec::as_slice).unwrap_or_default();
        let names = files.iter().filter_map(|file| file["rfilename"].as_str());
        // Ignore names that lead out of the folder.
        let names: Vec<String> = names
            .filter(|name| name.split('/').all(is_plain))
            .map(str::to_owned)
            .collect();
        let snapshot = folder.join("snapshots").join(commit);
        let mut paths = Vec::new();
        for name in choose(&names)? {
            let path = snapshot.join(&name);
            if !path.is_file() {
                let url = format!("{base}/datasets/{id}/resolve/{commit}/{name}");
                self.save(self.get(&client, &url).await?, &path).await?;
            }
            paths.push(path);
        }
        let unwritable = |error: std::io::Error| format!("cannot write to {}: {error}; set HF_HOME", folder.display());
        fs::create_dir_all(folder.join("refs")).map_err(unwritable)?;
        fs::write(folder.join("refs/main"), commit).map_err(unwritable)?;
        Ok(paths)
    }

    fn client(&self) -> Result<reqwest::Client, String> {
        // An error only means that the process has a TLS provider already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder().read_timeout(READ_TIMEOUT);
        if self.endpoint.starts_with("http://") {
            // The system's certificates are not needed, and a bare container has none to load.
            builder = builder.tls_certs_only([]);
        }
        builder
            .build()
            .map_err(|error| format!("cannot start a download: {error}"))
    }

    /// Returns the answer to a GET request. The token goes to the Hub only: it is removed from a redirect to another host.
    async fn get(&self, client: &reqwest::Client, url: &str) -> Result<reqwest::Response, String> {
        let mut request = client.get(url);
        if let Some(token) = &self.token {
            let mut value: HeaderValue = format!("Bearer {token}")
                .parse()
                .map_err(|_| "HF_TOKEN holds characters that no token has; set it again")?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let answer = request.send().await.map_err(|error| self.download_error(&error))?;
        let remedy = match answer.status().as_u16() {
            200..=299 => return Ok(answer),
            401 | 403 => "set HF_TOKEN to a token that may read it",
            404 => "check dataset_path",
            429 => "wait a while, or set HF_TOKEN",
            _ => "try again, or download it by hand and name the folder",
        };
        Err(format!("{url} was refused with {}; {remedy}", answer.status()))
    }

    /// Returns the message for a failed request, with its innermost cause.
    fn download_error(&self, error: &reqwest::Error) -> String {
        let mut cause: &dyn std::error::Error = error;
        while let Some(deeper) = cause.source() {
            cause = deeper;
        }
        format!(
            "cannot download from {}: {cause}; check the network and HF_ENDPOINT, or name a local folder",
            self.endpoint
        )
    }

    /// Writes an answer's body to a file. The file gets its name only when it is complete.
    async fn save(&self, mut answer: reqwest::Response, path: &Path) -> Result<(), String> {
        let unwritable = |error: std::io::Error| format!("cannot write {}: {error}; set HF_HOME", path.display());
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(unwritable)?;
        let partial = temporary_name(path);
        let mut file = fs::File::create(&partial).map_err(unwritable)?;
        loop {
            let written = match answer.chunk().await {
                Ok(Some(piece)) => file.write_all(&piece).map_err(unwritable),
                Ok(None) => break,
                Err(error) => Err(self.download_error(&error)),
            };
            if let Err(problem) = written {
                // The error of the download is reported; a partial file that remains does no harm.
                let _ = fs::remove_file(&partial);
                return Err(problem);
            }
        }
        fs::rename(&partial, path).map_err(unwritable)
    }
}

/// Returns the cache folder of the Hugging Face tools: `HF_HUB_CACHE`, else `hub` below `HF_HOME`, else below `~/.cache/huggingface`;
/// `None` without a home folder.
pub(in crate::dataset) fn cache() -> Option<PathBuf> {
    env::var_os("HF_HUB_CACHE").map(PathBuf::from).or_else(|| {
        let home = env::var_os("HF_HOME").map(PathBuf::from);
        let home = home.or_else(|| env::home_dir().map(|home| home.join(".cache/huggingface")));
        home.map(|home| home.join("hub"))
    })
}

/// Returns true if a text may be the name of a dataset on the Hub: `ORG/DATASET`, or one of the old names without `ORG`.
pub(in crate::dataset) fn is_name(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty()
            && word != "."
            && word != ".."
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    let words: Vec<&str> = text.split('/').collect();
    words.len() <= 2 && words.into_iter().all(is_word)
}

/// Returns true if a part of a path names something inside its folder, and has no character with a special meaning in a URL.
fn is_plain(part: &str) -> bool {
    !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '/', '\0', '?', '#', '%'])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};
    use std::thread;

    /// Starts a Hub with one dataset. Returns its address and the requests that it got. Its thread ends with the process.
    fn start(secret: Option<&'static str>) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::new(Mutex::new(vec![]));
        let seen = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n == 1) {
                    head.push(byte[0]);
                }
                let head = String::from_utf8_lossy(&head).to_lowercase();
                let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
                let may = secret.is_none_or(|secret| head.contains(&format!("authorization: bearer {secret}")));
                let (status, body) = match path.as_str() {
                    _ if !may => ("401 Unauthorized", ""),
                    "/api/datasets/org/d/revision/main" => (
                        "200 OK",
                        r#"{"sha": "abc", "siblings": [{"rfilename": "README.md"}, {"rfilename": "../../evil.csv"},
                            {"rfilename": "data/train.csv"}]}"#,
                    ),
                    "/datasets/org/d/resolve/abc/data/train.csv" => ("200 OK", "prompt\nhello\n"),
                    _ => ("404 Not Found", ""),
                };
                seen.lock().expect("no panic").push(path);
                let answer = format!(
                    "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(answer.as_bytes()).expect("sent");
            }
        });
        (url, asked)
    }

    fn hub(endpoint: &str, token: Option<&str>, cache: &Path) -> Hub {
        Hub {
            endpoint: endpoint.to_owned(),
            token: token.map(str::to_owned),
            is_offline: false,
            cache: cache.to_path_buf(),
        }
    }

    fn all(names: &[String]) -> Result<Vec<String>, String> {
        Ok(names.iter().filter(|name| name.ends_with(".csv")).cloned().collect())
    }

    #[test]
    fn files_are_downloaded_once_and_found_offline() {
        let (url, asked) = start(Some("s3cret"));
        let folder = tempfile::tempdir().expect("a folder");
        let mut hub = hub(&url, Some("s3cret"), folder.path());
        let files = hub.fetch("org/d", all).expect("downloaded");
        assert_eq!(
            files,
            [folder.path().join("datasets--org--d/snapshots/abc/data/train.csv")]
        );
        assert_eq!(fs::read_to_string(&files[0]).expect("readable"), "prompt\nhello\n");
        assert_eq!(hub.fetch("org/d", all), Ok(files.clone()));
        assert_eq!(
            asked.lock().expect("no panic").len(),
            3,
            "the second time only the list"
        );
        hub.is_offline = true;
        assert_eq!(hub.fetch("org/d", all), Ok(files));
        assert!(
            hub.fetch("org/e", all)
                .is_err_and(|problem| problem.contains("HF_HUB_OFFLINE"))
        );
    }

    #[test]
    fn a_file_may_be_downloaded_by_several_threads_at_once() {
        let (url, _) = start(None);
        let folder = tempfile::tempdir().expect("a folder");
        let hub = hub(&url, None, folder.path());
        let fetch = || hub.fetch("org/d", all).expect("downloaded");
        thread::scope(|scope| {
            let threads = [(); 16].map(|()| scope.spawn(fetch));
            threads.map(|thread| thread.join().expect("no panic"))
        });
        let text = fs::read_to_string(&fetch()[0]).expect("readable");
        assert_eq!(text, "prompt\nhello\n");
    }

    #[test]
    fn refusals_name_the_remedy_and_no_token() {
        let (url, _) = start(Some("s3cret"));
        let folder = tempfile::tempdir().expect("a folder");
        let problem = |token, id| hub(&url, token, folder.path()).fetch(id, all).expect_err("refused");
        let refused = problem(Some("wr0ng"), "org/d");
        assert!(
            refused.contains("401") && refused.contains("HF_TOKEN") && !refused.contains("wr0ng"),
            "{refused}"
        );
        assert!(problem(Some("s3cret"), "org/e").contains("check dataset_path"));
        assert!(problem(None, "../etc").contains("ORG/DATASET"));
        let nobody = hub("http://127.0.0.1:9", Some("s3cret"), folder.path());
        let unreachable = nobody.fetch("org/d", all).expect_err("nobody listens");
        assert!(
            unreachable.contains("HF_ENDPOINT") && !unreachable.contains("s3cret"),
            "{unreachable}"
        );
    }
}
