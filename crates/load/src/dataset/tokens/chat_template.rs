//! A model's chat template, which turns messages into the text format that the model was trained on.

use super::tokenizer;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

const NAME: &str = "chat";

/// The chat template of a model, with the syntax and functions of Hugging Face's `apply_chat_template`.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
    /// Variables of every rendering: the special tokens, and the values that the user added.
    context: Map<String, Value>,
}

impl ChatTemplate {
    /// Reads the template in a model's folder: `chat_template.jinja`, else `chat_template` in `tokenizer_config.json`. `None` if it has
    /// neither. `kwargs` are further variables for the template.
    pub fn find(folder: &Path, kwargs: &Map<String, Value>) -> Result<Option<ChatTemplate>, String> {
        let config_path = folder.join("tokenizer_config.json");
        let config = match fs::read(&config_path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| format!("{}: not JSON ({error}); correct it", config_path.display()))?,
            Err(_) => Value::Null,
        };
        let source = match fs::read_to_string(folder.join("chat_template.jinja")) {
            Ok(source) => Some(source),
            Err(_) => in_config(&config),
        };
        let Some(source) = source else { return Ok(None) };
        let mut context = Map::new();
        for name in ["bos_token", "eos_token", "unk_token", "pad_token"] {
            // A token that the model lacks is undefined, and so prints nothing.
            if let Some(text) = tokenizer::text_of(&config[name]) {
                context.insert(name.to_owned(), json!(text));
            }
        }
        context.extend(kwargs.clone());
        ChatTemplate::new(source, context)
            .map(Some)
            .map_err(|error| format!("the chat template in {} is wrong: {error}", folder.display()))
    }

    fn new(source: String, context: Map<String, Value>) -> Result<ChatTemplate, Error> {
        let mut environment = Environment::new();
        let mut syntax = SyntaxConfig::builder();
        environment.set_syntax(syntax.trim_blocks(true).lstrip_blocks(true).build()?);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |message: String| -> Result<Jinja, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        });
        environment.add_function("strftime_now", |format: String| {
            jiff::Zoned::now().strftime(&format).to_string()
        });
        environment.add_template_owned(NAME, source)?;
        Ok(ChatTemplate { environment, context })
    }

    /// Renders a text as one message of the user, followed by the text that begins an answer.
    pub fn user_turn(&self, text: &str) -> Result<String, String> {
        let mut context = self.context.clone();
        context.insert("messages".to_owned(), json!([{"role": "user", "content": text}]));
        context.insert("add_generation_prompt".to_owned(), json!(true));
        let template = self.environment.get_template(NAME);
        template
            .and_then(|template| template.render(Jinja::from(Serde(&context))))
            .map_err(|error| format!("the model's chat template refused a prompt ({error}); set skip_chat_template"))
    }
}

/// Returns `chat_template` in a configuration: a text, or the one named `default` in a list.
fn in_config(config: &Value) -> Option<String> {
    let template = &config["chat_template"];
    let named = || {
        let templates = template.as_array()?;
        let default = templates.iter().find(|template| template["name"] == "default")?;
        default["template"].as_str()
    };
    template.as_str().or_else(named).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], kwargs: Value) -> Result<Option<ChatTemplate>, String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            fs::write(folder.path().join(name), text).expect("written");
        }
        let Value::Object(kwargs) = kwargs else {
            panic!("an object")
        };
        ChatTemplate::find(folder.path(), &kwargs)
    }

    #[test]
    fn templates_speak_the_jinja_of_hugging_face() {
        let source = "{{ bos_token }}{% for message in messages %}\n    {%- if message['role'].startswith('u') %}\n\
                      <{{ message.role }}>{{ message['content'].strip() }}</>\n    {%- endif %}\n{% endfor %}\n\
                      {% if add_generation_prompt %}<a>{% if think %}<t>{% endif %}{% endif %}";
        let config = json!({"bos_token": {"content": "<s>"}, "chat_template": source}).to_string();
        let template = found(&[("tokenizer_config.json", &config)], json!({"think": true}));
        let template = template.expect("readable").expect("it is there");
        assert_eq!(template.user_turn(" hi ").as_deref(), Ok("<s><user>hi</><a><t>"));
    }

    #[test]
    fn a_token_that_the_model_lacks_is_undefined() {
        let source = "{{ bos_token }}{% if eos_token is defined %}eos{% endif %}{{ messages[0].content }}";
        let config = json!({"bos_token": null, "chat_template": source}).to_string();
        let template = found(&[("tokenizer_config.json", &config)], json!({}));
        let template = template.expect("readable").expect("it is there");
        assert_eq!(template.user_turn("hi").as_deref(), Ok("hi"));
    }

    #[test]
    fn a_file_comes_first_and_a_wrong_one_is_named() {
        let template = found(&[("chat_template.jinja", "{{ raise_exception('no') }}")], json!({}));
        let refusal = template.expect("readable").expect("there").user_turn("x");
        assert!(refusal.is_err_and(|refusal| refusal.contains("no") && refusal.contains("skip_chat_template")));
        assert!(found(&[("chat_template.jinja", "{% if %}")], json!({})).is_err());
        assert!(found(&[("tokenizer_config.json", "{")], json!({})).is_err());
        assert!(found(&[], json!({})).expect("readable").is_none());
    }
}
