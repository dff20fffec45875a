//! A headless Chromium, driven over W3C WebDriver: JSON over HTTP/1.1 to a chromedriver of our own.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longest wait for anything. Only a broken page takes so long.
const PATIENCE: Duration = Duration::from_secs(180);

/// Flags with which Chromium runs as root, offline and without a screen.
const FLAGS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
}

impl Browser {
    /// Starts a browser. Tests that need one are ignored if chromedriver was not installed when they were built.
    pub fn start() -> Browser {
        let profile = tempfile::tempdir().expect("a temporary folder");
        let driver = Command::new("chromedriver")
            .args(["--port=0", "--log-level=SEVERE"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut driver = driver.unwrap_or_else(|error| {
            panic!("chromedriver: {error}; apt-get install -y --no-install-recommends chromium chromium-driver")
        });
        let mut lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        let port = lines.find_map(|line| {
            let line = line.expect("text");
            line.split_once("successfully on port ")?
                .1
                .trim_end_matches('.')
                .parse()
                .ok()
        });
        // The rest of the output is read and dropped, so that the driver never blocks on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut browser = Browser {
            driver,
            port: port.expect("chromedriver names its port"),
            session: String::new(),
            _profile: profile,
        };
        let mut flags: Vec<String> = FLAGS.map(str::to_owned).to_vec();
        flags.push(format!("--user-data-dir={}", browser._profile.path().display()));
        flags.push("--window-size=1280,1000".to_owned());
        let session = browser.call(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": {
                "browserName": "chrome",
                "timeouts": {"script": 1000 * PATIENCE.as_secs()},
                "goog:chromeOptions": {"args": flags},
                "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            }}}),
        );
        browser.session = session["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Opens a local file.
    pub fn open(&self, page: &Path) {
        self.visit(&format!("file://{}", page.display()));
    }

    /// Opens an address.
    pub fn visit(&self, url: &str) {
        self.post("url", &json!({"url": url}));
    }

    /// Runs a script's body in the page, and returns its result. Before, waits for drawing that the page has postponed: charts and tables
    /// outside the window are drawn when the browser is idle.
    pub fn run(&self, script: &str) -> Value {
        let settled = "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => requestIdleCallback(resolve))))";
        self.evaluate(&format!("return {settled}.then(() => {{ {script} }})"))
    }

    fn evaluate(&self, script: &str) -> Value {
        self.post("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a script's body returns true.
    pub fn wait(&self, script: &str) {
        let until = Instant::now() + PATIENCE;
        while self.evaluate(script) != json!(true) {
            assert!(Instant::now() < until, "never came true: {script}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks the first element that matches, as a person would: it is scrolled into view, and must not be covered.
    pub fn click(&self, selector: &str) {
        let into_view = "scrollIntoView({block: 'center', behavior: 'instant'})";
        self.run(&format!("document.querySelector({}).{into_view}", json!(selector)));
        let element = self.post("element", &json!({"using": "css selector", "value": selector}));
        let id = element.as_object().and_then(|element| element.values().next());
        let id = id.and_then(Value::as_str).expect("an element").to_owned();
        self.post(&format!("element/{id}/click"), &json!({}));
    }

    /// Moves the mouse to a place in the window, in pixels.
    pub fn point_at(&self, x: f64, y: f64) {
        self.mouse(&json!([move_to(x, y)]));
    }

    /// Moves the mouse from one place to another and clicks there, in a single command, so that nothing can happen in between.
    pub fn click_by_way_of(&self, first: (f64, f64), then: (f64, f64)) {
        let press = json!({"type": "pointerDown", "button": 0});
        let release = json!({"type": "pointerUp", "button": 0});
        self.mouse(&json!([
            move_to(first.0, first.1),
            move_to(then.0, then.1),
            press,
            release
        ]));
    }

    fn mouse(&self, actions: &Value) {
        let mouse =
            json!({"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions});
        self.post("actions", &json!({"actions": [mouse]}));
    }

    /// A command of the DevTools protocol.
    pub fn devtools(&self, command: &str, params: &Value) -> Value {
        self.post("goog/cdp/execute", &json!({"cmd": command, "params": params}))
    }

    /// Pictures of the whole page from top to bottom, as PNG in base64.
    pub fn pictures(&self) -> Vec<String> {
        let size = self.run("return [document.documentElement.clientWidth, document.documentElement.scrollHeight]");
        let (width, height) = (size[0].as_u64().expect("pixels"), size[1].as_u64().expect("pixels"));
        let tops = (0..height).step_by(1200);
        let picture = |top: u64| {
            let clip = json!({"x": 0, "y": top, "width": width, "height": (height - top).min(1200), "scale": 1});
            let taken = self.devtools(
                "Page.captureScreenshot",
                &json!({"captureBeyondViewport": true, "clip": clip}),
            );
            taken["data"].as_str().expect("a picture").to_owned()
        };
        tops.map(picture).collect()
    }

    /// Messages of the page's console that are warnings or worse.
    pub fn complaints(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({"type": "browser"}));
        let lines = log.as_array().expect("a list").iter();
        lines
            .filter(|line| matches!(line["level"].as_str(), Some("WARNING" | "SEVERE")))
            .map(|line| line["message"].to_string())
            .collect()
    }

    /// Addresses that the browser requested, without those inside the page and those of its own first tab.
    pub fn requests(&self) -> Vec<String> {
        let log = self.post("se/log", &json!({"type": "performance"}));
        let lines = log.as_array().expect("a list").iter();
        let messages = lines.map(|line| {
            let text = line["message"].as_str().expect("a message");
            serde_json::from_str::<Value>(text).expect("JSON")["message"].clone()
        });
        messages
            .filter(|message| message["method"] == "Network.requestWillBeSent")
            .map(|message| {
                message["params"]["request"]["url"]
                    .as_str()
                    .expect("an address")
                    .to_owned()
            })
            .filter(|url| {
                !["data:", "chrome:", "chrome-untrusted:"]
                    .iter()
                    .any(|own| url.starts_with(own))
            })
            .collect()
    }

    /// Waits until there are requests, and returns them.
    pub fn requests_until_some(&self) -> Vec<String> {
        let until = Instant::now() + PATIENCE;
        loop {
            let asked = self.requests();
            if !asked.is_empty() {
                return asked;
            }
            assert!(Instant::now() < until, "the browser asked for nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn post(&self, command: &str, body: &Value) -> Value {
        self.call("POST", &format!("/session/{}/{command}", self.session), body)
    }

    fn call(&self, method: &str, path: &str, body: &Value) -> Value {
        let (status, value) = self.exchange(method, path, body).expect("chromedriver answers");
        assert!(status == 200, "{path}: {value}");
        value
    }

    fn exchange(&self, method: &str, path: &str, body: &Value) -> std::io::Result<(u16, Value)> {
        let body = body.to_string();
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(2 * PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .unwrap_or(0);
        let mut length = 0;
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut content = vec![0; length];
        reader.read_exact(&mut content)?;
        let content: Value = serde_json::from_slice(&content)?;
        Ok((status, content["value"].clone()))
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends Chromium. If only the driver ended, Chromium would keep running.
        if !self.session.is_empty() {
            let _ = self.exchange("DELETE", &format!("/session/{}", self.session), &json!({}));
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

fn move_to(x: f64, y: f64) -> Value {
    json!({"type": "pointerMove", "duration": 0, "x": x.round() as i64, "y": y.round() as i64})
}
