//! The environment of our templates, which make pages and texts from data, and the functions that fill them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Value};
use sha2::{Digest, Sha256};
use vsweep_base::units::{show_count, show_many};

/// Creates the environment for templates. Values are escaped by `escape`, unless marked as safe. Filters write a number with its noun:
/// `3|counted("failed")` is `3 failed`, or nothing for zero; `3|many("run")` is `3 runs`.
pub fn environment(escape: fn(&str) -> String) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(move |out, _, value| {
        let text = value.to_string();
        let text = if value.is_safe() { text } else { escape(&text) };
        Ok(out.write_str(&text)?)
    });
    environment.add_filter("counted", |count: u64, word: &str| match count {
        0 => String::new(),
        count => format!("{} {word}", show_count(count)),
    });
    environment.add_filter("csp_hash", |text: &str| {
        format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text)))
    });
    environment.add_filter("many", |count: u64, noun: &str| show_many(count, noun));
    environment
}

/// Like `environment`, for texts in which line breaks matter: a tag on a line of its own leaves no empty line.
pub fn line_environment(escape: fn(&str) -> String) -> Environment<'static> {
    let mut environment = environment(escape);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.expect("the default tags are valid"));
    environment
}

/// Fills a template with values.
pub fn fill(environment: &Environment<'_>, template: &str, parts: Value) -> String {
    let filled = environment.render_str(template, parts);
    filled.expect("our templates are valid")
}

/// Fills a template of plain text, without escaping.
pub fn plain(template: &str, parts: Value) -> String {
    fill(&line_environment(str::to_owned), template, parts)
}

/// Adds a template from which others import parts. Its texts are escaped as in all templates of `environment`.
pub fn share(environment: &mut Environment<'static>, name: &'static str, template: &'static str) {
    let added = environment.add_template(name, template);
    added.expect("our templates are valid");
}
