//! Templates of ours, the one way from data to pages and texts.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, Value};

/// Where templates are filled in: texts are escaped so, but for what is marked as safe.
pub fn environment(escape: fn(&str) -> String) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(move |out, _, value| {
        let text = value.to_string();
        let text = if value.is_safe() { text } else { escape(&text) };
        Ok(out.write_str(&text)?)
    });
    environment
}

/// The same for texts that are read as they are written: a tag on a line of its own leaves no line.
pub fn of_lines(escape: fn(&str) -> String) -> Environment<'static> {
    let mut environment = environment(escape);
    let syntax = SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .keep_trailing_newline(true)
        .build();
    environment.set_syntax(syntax.expect("the usual tags are no others"));
    environment
}

/// A template with its parts.
pub fn fill(environment: &Environment<'_>, template: &str, parts: Value) -> String {
    let filled = environment.render_str(template, parts);
    filled.expect("templates of ours are sound")
}

/// Plain text.
pub fn plain(template: &str, parts: Value) -> String {
    fill(&of_lines(str::to_owned), template, parts)
}

/// Adds a template that others take parts from. What is escaped in it is settled here.
pub fn share(environment: &mut Environment<'static>, name: &'static str, template: &'static str) {
    let added = environment.add_template(name, template);
    added.expect("templates of ours are sound");
}
