//! Selects the files of a subset and a split of a dataset, by the naming rules of the Hugging Face Hub.

use super::rows::ENDINGS;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Splits that are used if none is asked for, the preferred ones first.
const SPLITS: [&str; 4] = ["train", "test", "validation", "val"];
/// Subsets that are used if none is asked for, the preferred ones first. The empty one is the dataset's own folder.
const SUBSETS: [&str; 3] = ["", "default", "main"];
/// Deepest level of folders that is searched for files. The dataset's own folder has level 0.
const DEEPEST: usize = 4;

/// Names of the files below a folder, relative to it, with `/` between folders; sorted.
pub(in crate::dataset) fn names_below(folder: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    collect(folder, "", 0, &mut names).map_err(|error| {
        format!(
            "cannot read the dataset {}: {error}; check dataset_path",
            folder.display()
        )
    })?;
    names.sort();
    Ok(names)
}

fn collect(folder: &Path, prefix: &str, depth: usize, names: &mut Vec<String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        let path = entry.path();
        if path.is_dir() && depth < DEEPEST {
            collect(&path, &format!("{name}/"), depth + 1, names)?;
        } else if path.is_file() {
            names.push(name);
        }
    }
    Ok(())
}

/// Returns those of `names` that belong to a subset and a split. `dataset` is the name of the dataset in error messages.
pub(in crate::dataset) fn choose(
    dataset: &str,
    names: &[String],
    subset: Option<&str>,
    split: Option<&str>,
) -> Result<Vec<String>, String> {
    let data: Vec<&String> = names.iter().filter(|name| is_data(name)).collect();
    if data.is_empty() {
        return Err(format!(
            "{dataset} holds no file that ends in one of {}; give another dataset_path",
            ENDINGS.join(", ")
        ));
    }
    let of_subset = match subset {
        Some(subset) => select(&data, |name| {
            words(name).any(|word| word == subset) || folder(name) == subset
        }),
        None => {
            let mut known = SUBSETS
                .iter()
                .map(|subset| select(&data, |name| folder(name) == *subset));
            known.find(|names| !names.is_empty()).unwrap_or(data.clone())
        }
    };
    let folders = distinct(of_subset.iter().map(|name| folder(name)));
    if of_subset.is_empty() || (subset.is_none() && folders.len() > 1) {
        let subsets = distinct(data.iter().map(|name| folder(name)));
        let found = match subset {
            Some(subset) => format!("no subset \"{subset}\""),
            None => "several subsets".to_owned(),
        };
        let remedy = match subsets.as_slice() {
            [""] => "remove hf_subset".to_owned(),
            all => format!("set hf_subset to one of: {}", all.join(", ")),
        };
        return Err(format!("{dataset} has {found}; {remedy}"));
    }
    let of_split = |split: &str| {
        let exact = select(&of_subset, |name| is_exactly(name, split));
        match exact.is_empty() {
            true => select(&of_subset, |name| words(name).any(|word| word == split)),
            false => exact,
        }
    };
    let usual = SPLITS.into_iter().find(|usual| !of_split(usual).is_empty());
    let chosen = split.or(usual).map_or_else(|| of_subset.clone(), of_split);
    let splits = distinct(chosen.iter().filter_map(|name| split_of_part(name)));
    // Names with a usual split as a word, such as `train_sft`, may be those of several splits. Other names are all read.
    let is_by_word = usual.is_some_and(|usual| !chosen.iter().any(|name| is_exactly(name, usual)));
    if split.is_none() && is_by_word && splits.len() > 1 {
        return Err(format!(
            "{dataset} has several splits; set hf_split to one of: {}",
            splits.join(", ")
        ));
    }
    if chosen.is_empty() {
        let files: Vec<&str> = of_subset.iter().take(12).map(|name| name.as_str()).collect();
        return Err(format!(
            "{dataset} has no file of the split \"{}\"; set hf_split to a word of one of: {}",
            split.unwrap_or_default(),
            files.join(", ")
        ));
    }
    Ok(chosen.into_iter().cloned().collect())
}

fn select<'a>(names: &[&'a String], is_wanted: impl Fn(&str) -> bool) -> Vec<&'a String> {
    names.iter().copied().filter(|name| is_wanted(name)).collect()
}

fn distinct<'a>(folders: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    Vec::from_iter(BTreeSet::from_iter(folders))
}

/// Returns true for a data file, and false for a description of the data.
fn is_data(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let described = ["dataset_info", "state.json", "config.json", "."];
    let ending = file.rsplit_once('.').map(|(_, ending)| ending.to_lowercase());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.as_str()))
        && !described.iter().any(|start| file.starts_with(start))
}

/// Returns the folder of a file, without a leading `data`, which does not name a subset.
fn folder(name: &str) -> &str {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    match folder.strip_prefix("data") {
        Some("") => "",
        Some(rest) => rest.strip_prefix('/').unwrap_or(folder),
        None => folder,
    }
}

/// Returns true if a folder, a file or the split of a part has exactly this name.
fn is_exactly(name: &str, split: &str) -> bool {
    split_of_part(name) == Some(split) || name.split(['/', '.']).any(|word| word == split)
}

/// Returns the split of a file that is one of several parts: `train_sft` for `data/train_sft-00000-of-00003.parquet`.
fn split_of_part(name: &str) -> Option<&str> {
    let file = name.rsplit('/').next()?;
    let (split, number) = file.split_once("-of-")?.0.rsplit_once('-')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(split)
}

/// The words of a path: `main/test-00000-of-00001.parquet` has `main`, `test`, `00000` and so on.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(['/', '-', '.', '_'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(names: &[&str], subset: Option<&str>, split: Option<&str>) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        choose("org/d", &names, subset, split)
    }

    #[test]
    fn splits_and_subsets_are_found_by_name() {
        let gsm8k = [
            "README.md",
            "main/test-00000-of-00001.parquet",
            "main/train-00000-of-00001.parquet",
            "socratic/test-00000-of-00001.parquet",
        ];
        assert_eq!(chosen(&gsm8k, None, None), Ok(vec![gsm8k[2].to_owned()]));
        assert_eq!(
            chosen(&gsm8k, Some("socratic"), Some("test")),
            Ok(vec![gsm8k[3].to_owned()])
        );
        assert!(chosen(&gsm8k, Some("socratic"), Some("train")).is_err());
        let other = chosen(&gsm8k, Some("other"), None).expect_err("no subset of this name");
        assert_eq!(
            other,
            "org/d has no subset \"other\"; set hf_subset to one of: main, socratic"
        );
        let plain = [
            "data/train-0.jsonl",
            "data/train-1.jsonl",
            "data/test.jsonl",
            "dataset_info.json",
        ];
        assert_eq!(
            chosen(&plain, Some("other"), None),
            Err("org/d has no subset \"other\"; remove hf_subset".to_owned())
        );
        assert_eq!(
            chosen(&plain, None, None),
            Ok(vec![plain[0].to_owned(), plain[1].to_owned()])
        );
        assert_eq!(
            chosen(&["question.jsonl"], None, None),
            Ok(vec!["question.jsonl".to_owned()])
        );
        assert!(chosen(&["README.md"], None, None).is_err());
        assert!(chosen(&["a/x.csv", "b/x.csv"], None, None).is_err());
    }

    #[test]
    fn an_exact_name_of_a_split_comes_first() {
        let chat = [
            "data/test_sft-00000-of-00001-f7dfac4afe5b93f4.parquet",
            "data/train_gen-00000-of-00001-a6c9fb894be3e50b.parquet",
            "data/train_sft-00000-of-00002-a3ecf92756993583.parquet",
            "data/train_sft-00001-of-00002-0a1804bcb6ae68c6.parquet",
        ];
        let sft = vec![chat[2].to_owned(), chat[3].to_owned()];
        assert_eq!(chosen(&chat, None, Some("train_sft")), Ok(sft));
        assert_eq!(chosen(&chat, None, Some("gen")), Ok(vec![chat[1].to_owned()]));
        assert_eq!(
            chosen(&chat, None, None),
            Err("org/d has several splits; set hf_split to one of: train_gen, train_sft".to_owned())
        );
        let parts = |names: [&str; 2]| names.map(|name| format!("{name}-00000-of-00001.parquet")).to_vec();
        for all in [["java", "python"], ["train/java", "train/python"]].map(parts) {
            assert_eq!(choose("org/d", &all, None, None), Ok(all), "no split");
        }
        let both = ["train.jsonl", "train_sft.jsonl"];
        assert_eq!(chosen(&both, None, None), Ok(vec![both[0].to_owned()]));
        assert_eq!(chosen(&both, None, Some("train_sft")), Ok(vec![both[1].to_owned()]));
    }
}
