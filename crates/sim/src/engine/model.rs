//! The shape of a model, from which its memory, arithmetic and traffic follow. It is read from the `config.json` of a model's folder, or
//! guessed from the size in the model's name (`8b`, `70b`, `30b-a3b`, `8x7b`). Nothing here uses the network.

use serde_json::Value;
use std::path::Path;

/// A decoder-only transformer with grouped-query or multi-head latent attention, dense or mixture of experts.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// Transformer layers.
    pub layers: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Attention heads.
    pub heads: usize,
    /// Heads of keys and values in the cache.
    pub kv_heads: usize,
    /// Width of one head, the mean of keys and values.
    pub head_dim: usize,
    /// Numbers that the cache holds of one token in one layer.
    pub kv_width: usize,
    /// Entries of the vocabulary.
    pub vocabulary: usize,
    /// Longest context of the model, in tokens.
    pub max_len: usize,
    /// Number of all parameters.
    pub parameters: f64,
    /// Number of parameters that one token uses; equal to `parameters` for a dense model.
    pub active: f64,
    /// Experts in a layer and experts per token, if any.
    pub experts: Option<(usize, usize)>,
    /// Quantisation in which the weights are published, in vLLM's words; empty if there is none.
    pub quantization: String,
}

/// Parts of the names of 8-bit and of 4-bit quantisations. `GPTQ-Int8` has 8 bits. The weights of gpt-oss are published in MXFP4.
const EIGHT_BITS: [&str; 5] = ["fp8", "int8", "w8a8", "w8a16", "8bit"];
const FOUR_BITS: [&str; 9] = [
    "awq",
    "gptq",
    "fp4",
    "int4",
    "w4a16",
    "w4a8",
    "4bit",
    "bitsandbytes",
    "gpt-oss",
];

/// Sizes of well-known dense models: billions of parameters, layers, hidden, heads, kv heads, vocabulary, context.
/// Sources: the `config.json` of Qwen2.5-0.5B, Llama-3.2-1B, Llama-3.2-3B, Llama-3.1-8B, Qwen2.5-14B, Qwen2.5-32B,
/// Llama-3.1-70B and Llama-3.1-405B.
const SHAPES: [(f64, usize, usize, usize, usize, usize, usize); 8] = [
    (0.494, 24, 896, 14, 2, 151_936, 32_768),
    (1.24, 16, 2048, 32, 8, 128_256, 131_072),
    (3.21, 28, 3072, 24, 8, 128_256, 131_072),
    (8.03, 32, 4096, 32, 8, 128_256, 131_072),
    (14.8, 48, 5120, 40, 8, 152_064, 32_768),
    (32.8, 64, 5120, 40, 8, 152_064, 32_768),
    (70.6, 80, 8192, 64, 8, 128_256, 131_072),
    (405.9, 126, 16_384, 128, 8, 128_256, 131_072),
];

impl Model {
    /// Returns the model that a name means: the well-known shape of the nearest size, with the number of parameters in the name. A name
    /// without a size means a dense model of 8 billion.
    pub fn named(name: &str) -> Model {
        let size = Size::in_name(name).unwrap_or(Size {
            total: 8.03,
            active: None,
            experts: None,
        });
        let distance = |billions: f64| (billions / size.total).ln().abs();
        let shape = SHAPES
            .into_iter()
            .min_by(|a, b| distance(a.0).total_cmp(&distance(b.0)));
        let (billions, layers, hidden, heads, kv_heads, vocabulary, max_len) = shape.expect("the list is not empty");
        // A rounded size in a name ("8b") means the well-known model, not exactly eight billion.
        let total = if distance(billions) < 0.08 {
            billions
        } else {
            size.total
        };
        let head_dim = if hidden == 896 { 64 } else { 128.min(hidden / heads) };
        Model {
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            kv_width: 2 * kv_heads * head_dim,
            vocabulary,
            max_len,
            parameters: total * 1e9,
            active: size.active.unwrap_or(total) * 1e9,
            experts: size.experts,
            quantization: quantization_in_name(name),
        }
    }

    /// Returns true if a name contains the size of the model. [`Model::named`] guesses it otherwise.
    pub fn states_its_size(name: &str) -> bool {
        Size::in_name(name).is_some()
    }

    /// Returns the model that a folder's `config.json` describes; `None` if the file cannot be read. The error for an incomplete file names
    /// the missing key.
    pub fn in_folder(folder: &Path) -> Option<Result<Model, String>> {
        let text = std::fs::read_to_string(folder.join("config.json")).ok()?;
        Some(match serde_json::from_str(&text) {
            Ok(config) => Self::from_config(&config),
            Err(error) => Err(format!("config.json is not JSON: {error}")),
        })
    }

    fn from_config(config: &Value) -> Result<Model, String> {
        let quantization = quantization_in_config(config);
        // The configuration of a multimodal model contains that of its language model.
        let config = config.get("text_config").unwrap_or(config);
        let optional = |key: &str| config.get(key).and_then(Value::as_u64).map(|n| n as usize);
        let required = |key: &str| match optional(key) {
            Some(0) | None => Err(format!("config.json lacks a positive integer `{key}`")),
            Some(value) => Ok(value),
        };
        let (layers, hidden) = (required("num_hidden_layers")?, required("hidden_size")?);
        let (heads, vocabulary) = (required("num_attention_heads")?, required("vocab_size")?);
        let positive = |key: &str| optional(key).filter(|number| *number > 0);
        let (attention, kv_heads, head_dim, kv_width) = match positive("kv_lora_rank") {
            // Multi-head latent attention (DeepSeek-V2, 2024): the cache holds what keys and values are computed from, and a rotary key.
            Some(rank) => {
                let rotary = required("qk_rope_head_dim")?;
                let (key, value) = (required("qk_nope_head_dim")?, required("v_head_dim")?);
                let query = heads * (key + rotary);
                let queries = positive("q_lora_rank").map_or(hidden * query, |rank| rank * (hidden + query));
                let keys_and_values = hidden * (rank + rotary) + rank * heads * (key + value);
                let attention = queries + keys_and_values + heads * value * hidden;
                (attention, 1, (key + rotary + value) / 2, rank + rotary)
            }
            None => {
                let kv_heads = optional("num_key_value_heads").unwrap_or(heads).max(1);
                let head_dim = optional("head_dim").unwrap_or(hidden / heads).max(1);
                let attention = (2 * heads + 2 * kv_heads) * head_dim * hidden;
                (attention, kv_heads, head_dim, 2 * kv_heads * head_dim)
            }
        };
        let intermediate = optional("intermediate_size").unwrap_or(4 * hidden);
        let experts = ["num_local_experts", "num_experts", "n_routed_experts"]
            .into_iter()
            .find_map(optional)
            .filter(|count| *count > 1)
            .map(|count| (count, optional("num_experts_per_tok").unwrap_or(2).clamp(1, count)));

        let expert = 3 * hidden * optional("moe_intermediate_size").unwrap_or(intermediate);
        let always = optional("n_shared_experts").unwrap_or(0);
        let dense = match experts {
            Some(_) => optional("first_k_dense_replace").unwrap_or(0).min(layers),
            None => layers,
        };
        let tied = config
            .get("tie_word_embeddings")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        let embeddings = vocabulary * hidden * if tied { 1 } else { 2 };
        let (all, used) = experts.unwrap_or((0, 0));
        let shared = layers * attention + dense * 3 * hidden * intermediate + embeddings;
        let parameters = |experts: usize| (shared + (layers - dense) * (always + experts) * expert) as f64;
        Ok(Model {
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            kv_width,
            vocabulary,
            max_len: optional("max_position_embeddings").unwrap_or(4096).max(1),
            parameters: parameters(all),
            active: parameters(used),
            experts,
            quantization,
        })
    }

    /// Returns the bytes of a weight of 2 bytes in a quantisation that is named in vLLM's words, and true if the arithmetic is in 8 bits.
    pub fn quantized(quantization: &str) -> (f64, bool) {
        let contains_one_of = |parts: &[&str]| parts.iter().any(|part| quantization.contains(part));
        match quantization {
            "" | "none" => (2.0, false),
            _ if contains_one_of(&EIGHT_BITS) => (1.0, true),
            // Four bits and their scales. The arithmetic has 16 bits.
            _ if contains_one_of(&FOUR_BITS) => (0.56, false),
            _ => (1.0, true),
        }
    }

    /// Parameters that every token uses, and those of one expert (all layers together; 0 for a dense model):
    /// `parameters = shared + count · expert` and `active = shared + used · expert`.
    pub fn shared_and_expert(&self) -> (f64, f64) {
        let Some((count, used)) = self.experts.filter(|(count, used)| count > used) else {
            return (self.parameters, 0.0);
        };
        let expert = (self.parameters - self.active) / (count - used) as f64;
        (self.parameters - count as f64 * expert, expert)
    }

    /// Bytes of keys and values of one token, all layers together.
    pub fn kv_bytes_per_token(&self, bytes_per_number: f64) -> f64 {
        (self.layers * self.kv_width) as f64 * bytes_per_number
    }
}

/// A size in a model's name, in billions of parameters.
struct Size {
    total: f64,
    active: Option<f64>,
    experts: Option<(usize, usize)>,
}

impl Size {
    fn in_name(name: &str) -> Option<Size> {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let words: Vec<&str> = name.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).collect();
        let active = words.iter().filter_map(|word| billions(word.strip_prefix('a')?)).next();
        let product = |word: &&str| {
            let (count, each) = word.split_once('x')?;
            Some((
                count.parse::<usize>().ok().filter(|count| (2..=1024).contains(count))?,
                billions(each)?,
            ))
        };
        if let Some((count, each)) = words.iter().find_map(product) {
            // The proportions of Mixtral 8x7B: 46.7 billion parameters, since attention is shared, and 12.9 billion active ones.
            let total = count as f64 * each * 0.834;
            return Some(Size {
                total,
                active: Some(total * 0.276),
                experts: Some((count, 2)),
            });
        }
        let total = words.iter().find_map(|word| billions(word))?;
        let experts = active.map(|_| (128, 8));
        Some(Size {
            total,
            active: active.map(|a| a.min(total)),
            experts,
        })
    }
}

fn quantization_in_name(name: &str) -> String {
    let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    let parts = EIGHT_BITS.into_iter().chain(FOUR_BITS);
    let found = parts
        .filter(|_| !name.contains("bf16"))
        .find(|part| name.contains(part));
    found.unwrap_or_default().to_owned()
}

fn quantization_in_config(config: &Value) -> String {
    let Some(own) = config.get("quantization_config") else {
        return String::new();
    };
    let groups = own.get("config_groups").and_then(Value::as_object);
    let group = groups.and_then(|groups| groups.values().next()?.pointer("/weights/num_bits"));
    let is_on = |key: &str| own.get(key).and_then(Value::as_bool) == Some(true);
    match own.get("bits").or(group).and_then(Value::as_u64) {
        Some(8) => "int8".to_owned(),
        Some(4) => "int4".to_owned(),
        _ if is_on("load_in_8bit") => "int8".to_owned(),
        _ => {
            let method = own.get("quant_algo").or(own.get("quant_method"));
            method.and_then(Value::as_str).unwrap_or_default().to_ascii_lowercase()
        }
    }
}

fn billions(word: &str) -> Option<f64> {
    let (number, unit) = match word.strip_suffix('b') {
        Some(number) => (number, 1.0),
        None => (word.strip_suffix('m')?, 1e-3),
    };
    let value: f64 = number.parse().ok()?;
    (value > 0.0 && value < 1e5).then_some(value * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_states_its_size() {
        assert_eq!(
            Model::named("meta-llama/Llama-3.1-8B-Instruct").parameters.round(),
            8.03e9
        );
        assert_eq!(Model::named("demo").parameters.round(), 8.03e9);
        assert_eq!(Model::named("demo-70b").layers, 80);
        assert_eq!(Model::named("qwen-500m").layers, 24);
        let moe = Model::named("Qwen3-30B-A3B");
        assert_eq!((moe.parameters, moe.active, moe.experts), (30e9, 3e9, Some((128, 8))));
        assert_eq!(Model::named("mixtral-8x7b").experts, Some((8, 2)));
    }

    #[test]
    fn published_quantisations_are_known_from_the_name_or_the_config() {
        let named = |name: &str| Model::quantized(&Model::named(name).quantization);
        assert_eq!(named("Llama-3.3-70B-Instruct-FP8"), (1.0, true));
        assert_eq!(named("Llama-3.3-70B-Instruct-AWQ"), (0.56, false));
        assert_eq!(named("Qwen2-7B-Instruct-GPTQ-Int8"), (1.0, true));
        assert_eq!(named("openai/gpt-oss-120b"), (0.56, false));
        assert_eq!(named("unsloth/gpt-oss-120b-BF16"), (2.0, false));
        let in_config = |own: Value| {
            let text = serde_json::json!({
                "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "vocab_size": 100
            });
            let config = serde_json::json!({"text_config": text, "quantization_config": own});
            Model::quantized(&Model::from_config(&config).expect("complete").quantization)
        };
        let groups = serde_json::json!({"group_0": {"weights": {"num_bits": 4}}});
        for (own, expected) in [
            (Value::Null, (2.0, false)),
            (serde_json::json!({"quant_method": "fp8"}), (1.0, true)),
            (serde_json::json!({"quant_method": "gptq", "bits": 4}), (0.56, false)),
            (
                serde_json::json!({"quant_method": "compressed-tensors", "config_groups": groups}),
                (0.56, false),
            ),
            (
                serde_json::json!({"quant_method": "modelopt", "quant_algo": "NVFP4"}),
                (0.56, false),
            ),
            (
                serde_json::json!({"quant_method": "bitsandbytes", "load_in_8bit": true}),
                (1.0, true),
            ),
        ] {
            assert_eq!(in_config(own.clone()), expected, "{own}");
        }
    }

    #[test]
    fn a_config_gives_the_published_number_of_parameters() {
        let config = serde_json::json!({
            "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
            "intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072
        });
        let model = Model::from_config(&config).expect("complete");
        assert!((model.parameters / 8.03e9 - 1.0).abs() < 0.01, "{}", model.parameters);
        assert_eq!(model.kv_bytes_per_token(2.0), 131_072.0);
    }

    #[test]
    fn latent_attention_and_routed_experts_are_read() {
        let v3 = serde_json::json!({
            "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "num_key_value_heads": 128,
            "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256, "n_shared_experts": 1,
            "num_experts_per_tok": 8, "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 129280
        });
        let lite = serde_json::json!({
            "num_hidden_layers": 27, "hidden_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 16,
            "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2,
            "num_experts_per_tok": 6, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": null,
            "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128, "vocab_size": 102400
        });
        for (config, parameters, active, experts, layers) in [
            (v3, 671e9, 37.4e9, (256, 8), 61.0),
            (lite, 15.7e9, 2.66e9, (64, 6), 27.0),
        ] {
            let model = Model::from_config(&config).expect("complete");
            assert!(
                (model.parameters / parameters - 1.0).abs() < 0.01,
                "{}",
                model.parameters
            );
            assert!((model.active / active - 1.0).abs() < 0.01, "{}", model.active);
            assert_eq!(model.experts, Some(experts));
            assert_eq!(model.kv_bytes_per_token(2.0), layers * (512.0 + 64.0) * 2.0);
        }
    }

    #[test]
    fn an_incomplete_config_is_named() {
        let error = Model::from_config(&serde_json::json!({"num_hidden_layers": 2})).expect_err("incomplete");
        assert!(error.contains("hidden_size"), "{error}");
    }
}
