//! A tokenizer's file works or is rejected, and so does the chat template. A line feed on its own ends the first.

use crate::files::Folder;
use std::sync::Once;
use vsweep::dataset::{ChatTemplate, Dataset, Draw, Random, RangeRatio, Sampling, Tokenizer, Vocabulary};

pub fn check(data: &[u8]) {
    // The tokenizer library's own panics are caught by vsweep; libFuzzer's hook would end the process before. Others still do.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let at = data.windows(2).position(|pair| pair == b"\n\n");
    let (model, config) = at.map_or((data, &b"{}"[..]), |at| (&data[..at], &data[at + 2..]));
    let folder = Folder::new();
    folder.write("tokenizer.json", model);
    folder.write("tokenizer_config.json", config);
    let root = folder.path("");
    let found = match Tokenizer::find(root.to_str().expect("a plain name")) {
        Err(complaint) => return assert!(complaint.contains("tokenizer"), "{complaint}"),
        Ok(found) => found.expect("the file is there"),
    };
    let random = Random {
        input_len: 8,
        output_len: 2,
        range_ratio: RangeRatio::default(),
        prefix_len: 2,
        batch_size: 1,
    };
    let sampling = Sampling {
        num_prompts: 5,
        seed: 1,
        shuffle: true,
        oversample: true,
    };
    if let Ok(items) = random.draw(&Draw::of(sampling, &Vocabulary::Tokenizer(&found))) {
        assert_eq!(items.len(), 5);
    }
    if let Ok(Some(template)) = ChatTemplate::find(found.folder(), &Default::default()) {
        let _ = template.user_turn("hello");
    }
}
