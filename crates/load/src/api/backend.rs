//! The APIs that can be measured: their names, their paths, and the formats of their responses.

/// The API that a request is sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// `/v1/completions`
    Completions,
    /// `/v1/chat/completions`
    Chat,
    /// `/v1/responses`
    Responses,
    /// `/v1/audio/transcriptions` (or `translations`), as a multipart form
    Audio,
    /// `/v1/embeddings` with an input
    Embeddings,
    /// `/v1/embeddings` with messages
    EmbeddingsChat,
    /// `/v1/embeddings` with messages, for CLIP models: a prompt with an image has no text
    EmbeddingsClip,
    /// `/v1/embeddings` with messages, for VLM2Vec models: the image first, then an instruction
    EmbeddingsVlm2vec,
    /// `/embeddings` of an Infinity server
    Infinity,
    /// `/embeddings` of an Infinity server, with CLIP models
    InfinityClip,
    /// `/pooling`
    Pooling,
    /// `/v1/rerank`
    Rerank,
}

/// Format of the response to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reply {
    /// A stream of events with `choices`.
    #[default]
    Choices,
    /// A stream of typed events.
    Responses,
    /// One JSON object with `usage`.
    Usage,
    /// Bytes, with `usage` as JSON in the header `metadata`.
    UsageInHeader,
    /// Bytes without a count of tokens.
    Opaque,
    /// A body that is kept as text.
    Text,
}

impl Reply {
    /// Returns true if the response is a stream of output events.
    pub fn is_stream(self) -> bool {
        matches!(self, Reply::Choices | Reply::Responses)
    }
}

/// Names of backends in `vllm bench serve`.
const NAMES: [(&str, Backend); 13] = [
    ("openai", Backend::Completions),
    ("vllm", Backend::Completions),
    ("openai-chat", Backend::Chat),
    ("openai-responses", Backend::Responses),
    ("openai-audio", Backend::Audio),
    ("openai-embeddings", Backend::Embeddings),
    ("openai-embeddings-chat", Backend::EmbeddingsChat),
    ("openai-embeddings-clip", Backend::EmbeddingsClip),
    ("openai-embeddings-vlm2vec", Backend::EmbeddingsVlm2vec),
    ("infinity-embeddings", Backend::Infinity),
    ("infinity-embeddings-clip", Backend::InfinityClip),
    ("vllm-pooling", Backend::Pooling),
    ("vllm-rerank", Backend::Rerank),
];

impl Backend {
    /// Returns the backend that has this name in `vllm bench serve`.
    pub fn named(name: &str) -> Option<Backend> {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, backend)| *backend)
    }

    /// The names that [`Backend::named`] knows.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(name, _)| *name)
    }

    /// Path of the API, below the base URL.
    pub fn endpoint(self) -> &'static str {
        match self {
            Backend::Completions => "/v1/completions",
            Backend::Chat => "/v1/chat/completions",
            Backend::Responses => "/v1/responses",
            Backend::Audio => "/v1/audio/transcriptions",
            Backend::Embeddings | Backend::EmbeddingsChat | Backend::EmbeddingsClip | Backend::EmbeddingsVlm2vec => {
                "/v1/embeddings"
            }
            Backend::Infinity | Backend::InfinityClip => "/embeddings",
            Backend::Pooling => "/pooling",
            Backend::Rerank => "/v1/rerank",
        }
    }

    /// Returns the endings that the path of the endpoint may have.
    pub fn endpoint_ends(self) -> Vec<&'static str> {
        match self {
            Backend::Audio => vec!["transcriptions", "translations"],
            _ => vec![self.endpoint().trim_start_matches("/v1").trim_start_matches('/')],
        }
    }

    /// Returns true if it generates tokens; the others answer with vectors or scores.
    pub fn generates(self) -> bool {
        matches!(
            self,
            Backend::Completions | Backend::Chat | Backend::Responses | Backend::Audio
        )
    }

    /// Returns true if a prompt can contain pictures.
    pub fn takes_pictures(self) -> bool {
        use Backend::{Chat, EmbeddingsChat, EmbeddingsClip, EmbeddingsVlm2vec, InfinityClip};
        matches!(
            self,
            Chat | EmbeddingsChat | EmbeddingsClip | EmbeddingsVlm2vec | InfinityClip
        )
    }

    /// Returns true if a prompt can be token ids.
    pub fn takes_ids(self) -> bool {
        matches!(self, Backend::Completions | Backend::Embeddings | Backend::Pooling)
    }

    /// Returns the format of its responses for the requested `encoding_format`.
    pub fn reply(self, encoding_format: Option<&str>) -> Reply {
        match (self, encoding_format) {
            (Backend::Responses, _) => Reply::Responses,
            _ if self.generates() => Reply::Choices,
            (_, Some("bytes")) => Reply::UsageInHeader,
            (_, Some("bytes_only")) => Reply::Opaque,
            _ => Reply::Usage,
        }
    }
}
