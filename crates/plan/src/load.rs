//! Loads a plan: its text, the plans it extends and the `--set` overrides become one tree, which is then read.

use super::read::PARAMS_FILE;
use super::syntax::{interpolate, node::merge};
use super::tables::optimize::ON_REPEATED_STARTS;
use super::{
    Diagnostics, Format, Kind, Node, Origin, Plan, Problem, Problems, Reader, Secrets, Side, Sources, Span, Target,
    World, checks::param_conflicts, matrix::Matrix, syntax::text, syntax::toml_text,
};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use vsweep_base::files::{MOST_TEXT, REFUSED, read_named_text, read_standard_input};

/// A plan as far as it could be read, with its problems. Later checks add problems, so that the user sees all of them at once. A setting
/// that could not be read is left out, or has its default.
#[derive(Debug)]
pub struct Draft {
    /// The plan.
    pub plan: Plan,
    /// Problems found so far.
    pub found: Diagnostics,
}

impl Draft {
    /// The plan, if nothing is wrong with it.
    pub fn finish(self) -> Result<Plan, Problems> {
        match self.found.is_empty() {
            true => Ok(self.plan),
            false => Err(self.found.into_problems(&self.plan.origin.sources, &self.plan.secrets)),
        }
    }
}

/// Loads the plan at a path. Each override is `KEY=VALUE` with a dotted key such as `serve.params.max_num_seqs` and a TOML value. A value
/// that is not valid TOML is taken as a text, unless it begins like a list, a table or a quoted text.
pub fn load(path: &Path, overrides: &[String]) -> Result<Plan, Problems> {
    draft(path, overrides, None)?.finish()
}

/// Key for the budget of an optimisation.
const BUDGET: &str = "optimize.budget";
/// Key for the time limit of a plan that has neither a comparison nor an optimisation.
const MAX_TIME: &str = "max_time";
/// Most plans that one plan may extend, one through the other.
const MOST_EXTENDED: usize = 32;
/// The path that means standard input.
const STANDARD_INPUT: &str = "-";

/// Loads as much of the plan as can be read. The path `-` is standard input, which is JSON if it begins with a brace. A `budget`, such as
/// `6h`, limits the plan's time. Fails if the text cannot be read, or is neither TOML nor JSON.
pub fn draft(path: &Path, overrides: &[String], budget: Option<&str>) -> Result<Draft, Problems> {
    let is_piped = path.as_os_str() == STANDARD_INPUT;
    let (path, text) = match is_piped {
        true => (Path::new("stdin"), read_standard_input()),
        false => (path, read_named_text(path)),
    };
    let text = text.map_err(|error| {
        let (why, remedy) = match error.kind() {
            ErrorKind::InvalidData => (error.to_string(), "save it as UTF-8"),
            REFUSED => (
                format!("it is longer than {MOST_TEXT} bytes"),
                "give the path of a plan, a file",
            ),
            ErrorKind::PermissionDenied => (error.to_string(), "give this user the right to read it"),
            ErrorKind::IsADirectory => (error.to_string(), "give the path of a plan, a file"),
            _ => (error.to_string(), "correct the path"),
        };
        let problem = Problem::of(format!("cannot read the plan {}: {why}", path.display()), remedy);
        Problems::new(vec![problem], &Sources::default(), &Secrets::default())
    })?;
    let format = match is_piped && text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        true => Format::Json,
        false => Format::of(path),
    };
    read(&text, format, path, (overrides, budget), &World::real())
}

/// Like [`draft`], for a text in memory. `path` names it in messages, and relative paths start there. Variables and further files come from
/// `world` alone.
pub fn draft_of(text: &str, format: Format, path: &Path, world: &World<'_>) -> Result<Draft, Problems> {
    read(text, format, path, (&[], None), world)
}

/// Like [`draft_of`], for a plan without problems.
pub fn parse(text: &str, format: Format, path: &Path, world: &World<'_>) -> Result<Plan, Problems> {
    draft_of(text, format, path, world)?.finish()
}

fn read(
    text: &str,
    format: Format,
    path: &Path,
    (overrides, budget): (&[String], Option<&str>),
    world: &World<'_>,
) -> Result<Draft, Problems> {
    let mut reader = Reader::new(world);
    let source = reader.sources.add(path, text);
    let typed = text::read(text, format, source, &mut reader.found);
    if !reader.found.is_empty() {
        return Err(reader.found.into_problems(&reader.sources, &reader.secrets));
    }
    let is_verbatim = overrides.is_empty() && budget.is_none() && typed.child("extends").is_none();
    let mut root = with_base(typed, path, &mut vec![path.to_path_buf()], &mut reader);
    // All problems so far are about the texts of plans that this one extends.
    reader.names.may_lack_some = !reader.found.is_empty();
    for setting in overrides {
        let source = reader.sources.add("--set", setting.as_str());
        let over = override_tree(setting, source, &mut reader);
        match over.as_ref().and_then(|over| over.entry("extends")) {
            Some(entry) => {
                let message = "a plan is extended by its text, not by --set";
                reader.object(entry.key_span, message, "write `extends` into the plan");
            }
            None => over.into_iter().for_each(|over| merge(&mut root, over)),
        }
    }
    if let Some(budget) = budget {
        let unlimited = read(text, format, path, (overrides, None), world);
        let key = unlimited.map_or(BUDGET, |draft| budget_key(&draft.plan));
        set_budget(budget, key, &mut root, &mut reader);
    }
    root.span.source = 0;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut plan = reader.plan(&root, &stem);
    (plan.text, plan.format) = match is_verbatim {
        true => (text.to_string(), format),
        false => {
            let mut written = root.clone();
            settle_params_files(&mut written, path, &reader);
            text::write(&written, format)
        }
    };
    plan.text = text::with_judging_values(plan.text, plan.format, &world.vars);
    plan.path = path.to_path_buf();
    plan.origin = Arc::new(Origin {
        sources: Arc::new(reader.sources),
        root,
    });
    let mut found = reader.found;
    param_conflicts::check(&plan, reader.names.may_lack_some, &mut found);
    Ok(Draft { plan, found })
}

/// Merges the tree of a plan over the tree of the plan that it extends, if any. `chain` holds the paths of the plans so far, to detect
/// circles.
fn with_base(over: Node, path: &Path, chain: &mut Vec<PathBuf>, reader: &mut Reader<'_>) -> Node {
    let base = over
        .child("extends")
        .and_then(|extends| base(extends, path, chain, reader));
    let Some(mut root) = base else {
        return over;
    };
    merge(&mut root, over);
    // The merged plan must not read the base again when it is loaded from another folder.
    if let Kind::Table(entries) = &mut root.kind {
        entries.retain(|entry| entry.key != "extends");
    }
    root
}

/// Makes the paths of parameter files relative to the folder of the plan at `path`, or absolute, because the merged tree is written as one
/// text. Another plan or an override may have named them relative to another folder.
fn settle_params_files(root: &mut Node, path: &Path, reader: &Reader<'_>) {
    let folder = path.parent().unwrap_or(Path::new(""));
    let Kind::Table(tables) = &mut root.kind else { return };
    let sides = [Side::Serve, Side::Bench].map(Side::table);
    for table in tables.iter_mut().filter(|entry| sides.contains(&&*entry.key)) {
        let Kind::Table(entries) = &mut table.value.kind else {
            continue;
        };
        let named = entries.iter_mut().filter(|entry| entry.key == PARAMS_FILE);
        for file in named.map(|entry| &mut entry.value) {
            let from = reader.folder_of(file.span);
            let Kind::Text(file) = &mut file.kind else { continue };
            if let Ok((named, _)) = interpolate::expand(file, &reader.world.vars)
                && from != folder
            {
                let named = from.join(named);
                let settled = named.strip_prefix(folder).map(Path::to_path_buf);
                let settled = settled.or_else(|_| std::path::absolute(&named)).unwrap_or(named);
                *file = settled.to_string_lossy().replace("${", "$${");
            }
        }
    }
}

/// Reads the plan that the plan at `path` extends, merged over the plans that it extends itself.
fn base(extends: &Node, path: &Path, chain: &mut Vec<PathBuf>, reader: &mut Reader<'_>) -> Option<Node> {
    let Kind::Text(name) = &extends.kind else {
        return reader.not_a("a string", extends, "extends", "write the path of a plan");
    };
    let name = reader.expand(name, extends.span);
    let path = path.parent().unwrap_or(Path::new("")).join(&name);
    let plain = |path: &Path| {
        let parts = path.components().filter(|part| part.as_os_str() != ".");
        parts.collect::<PathBuf>()
    };
    if chain.iter().any(|earlier| plain(earlier) == plain(&path)) {
        let message = format!("`{name}` extends itself through other plans");
        return reader.refuse(extends.span, message, "remove one of the `extends` of the circle");
    }
    if chain.len() > MOST_EXTENDED {
        // The same plan has many paths through `..`, so this may also be a circle.
        let message = format!("more than {MOST_EXTENDED} plans extend each other, perhaps in a circle");
        return reader.refuse(extends.span, message, "remove one of the `extends`");
    }
    let text = reader.file(&path, extends.span)?;
    let source = reader.sources.add(&path, text.as_str());
    let typed = text::read(&text, Format::of(&path), source, &mut reader.found);
    chain.push(path.clone());
    Some(with_base(typed, &path, chain, reader))
}

/// Returns the key that a budget sets. Comparisons and optimisations have limits of their own, because they choose what to start. A plan
/// with several servers becomes an optimisation, unless it explores loads or runs an offline benchmark. Any other plan gets a time limit,
/// and what does not fit is left for later.
fn budget_key(plan: &Plan) -> &'static str {
    let is_attached = matches!(plan.serve.target, Target::Attach(_));
    let has_choice = || Matrix::expand(plan).is_ok_and(|matrix| matrix.counts().servers > 1);
    match plan {
        _ if plan.compare.is_some() => "compare.max_time",
        _ if plan.optimize.is_some() => BUDGET,
        _ if is_attached || plan.explore.is_some() || plan.bench.runner.offline().is_some() => MAX_TIME,
        _ if has_choice() => BUDGET,
        _ => MAX_TIME,
    }
}

/// Sets the key for a budget. An optimisation decides itself which servers are started again, so the plan's settings for repeated starts
/// are removed. The plan's `starts` becomes the number of starts of the best server.
fn set_budget(budget: &str, key: &str, root: &mut Node, reader: &mut Reader<'_>) {
    let setting = format!("{key}={budget}");
    let source = reader.sources.add("--budget", setting.as_str());
    let mut settings = vec![override_tree(&setting, source, reader)];
    if let (BUDGET, Kind::Table(entries)) = (key, &mut root.kind) {
        let starts = entries.iter().find(|entry| entry.key == "starts");
        settings.extend(starts.map(|starts| {
            let mut over = override_tree("optimize.best_starts=1", source, reader)?;
            replace_leaf(&mut over, starts.value.clone());
            Some(over)
        }));
        let repeated = entries.iter().find(|entry| entry.key == "repeat_first");
        if let Some(repeated) = repeated.filter(|entry| entry.value.kind == Kind::Bool(true)) {
            let message = "`repeat_first` is left out, because --budget chooses which servers are started again";
            let remedy = "leave out --budget, or remove `repeat_first`";
            reader.found.warn(Problem::of(message, remedy).at(repeated.value.span));
        }
        entries.retain(|entry| !ON_REPEATED_STARTS.contains(&entry.key.as_str()));
    }
    settings.into_iter().flatten().for_each(|over| merge(root, over));
}

/// Parses `KEY=VALUE` as a tree with one entry.
fn override_tree(setting: &str, source: usize, reader: &mut Reader<'_>) -> Option<Node> {
    let parsed = |text: &str| {
        let mut quiet = Diagnostics::default();
        let tree = toml_text::parse(text, source, &mut quiet);
        (quiet.is_empty() && tree.entries().len() == 1).then_some(tree)
    };
    let Some((key, value)) = setting.split_once('=') else {
        let remedy = "write --set KEY=VALUE, such as --set runs=5";
        return reader.refuse(Span::of(source, 0..setting.len()), "this override has no `=`", remedy);
    };
    if let Some(tree) = parsed(setting) {
        return Some(tree);
    }
    let Some(mut tree) = parsed(&format!("{key}=0")) else {
        let message = "the key of this override is not a dotted name";
        let remedy = "write a dotted key such as serve.params.max_num_seqs";
        return reader.refuse(Span::of(source, 0..key.len()), message, remedy);
    };
    let span = Span::of(source, key.len() + 1..setting.len());
    // A JSON object is a text, as it is within a plan.
    let is_json = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(value).is_ok();
    if value.trim().starts_with(['[', '{', '"', '\'']) && !is_json {
        let message = "unclosed list, table or quoted text";
        return reader.refuse(
            span,
            message,
            "close it, or put a string in quotes, as in --set 'KEY=\"[text\"'",
        );
    }
    let kind = Kind::Text(value.trim().to_string());
    replace_leaf(&mut tree, Node { span, kind });
    Some(tree)
}

/// Replaces the only value in a tree.
fn replace_leaf(tree: &mut Node, leaf: Node) {
    match &mut tree.kind {
        Kind::Table(entries) => replace_leaf(&mut entries[0].value, leaf),
        _ => *tree = leaf,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Axis;
    use std::time::Duration;

    const GRID: &str = "version = 1\nstarts = 3\nrepeat_first = true\n[serve]\ncommand = \"vllm serve m\"\n[serve.params]\n\
                        max_num_seqs = [1, 2]\n[bench.params]\nnum_prompts = 9\n";
    const HOUR: Option<Duration> = Some(Duration::from_secs(3600));

    fn within_an_hour(text: &str) -> Plan {
        let path = Path::new("plan.toml");
        let draft = read(text, Format::Toml, path, (&[], Some("1h")), &World::empty());
        draft.and_then(Draft::finish).expect("a valid plan")
    }

    #[test]
    fn a_budget_makes_an_optimisation_whose_best_server_has_the_plans_starts() {
        let plan = within_an_hour(GRID);
        let optimize = plan.optimize.expect("an optimisation");
        assert_eq!((optimize.budget, optimize.best_starts), (HOUR, Some(3)));
        assert_eq!((plan.starts, plan.repeat_first), (1, false));
        let draft = read(
            GRID,
            Format::Toml,
            Path::new("plan.toml"),
            (&[], Some("1h")),
            &World::empty(),
        );
        let draft = draft.expect("readable");
        let warnings = draft.found.warnings(&draft.plan.origin.sources, &Secrets::default());
        let warnings = warnings.expect("one").to_string();
        assert!(warnings.contains("`repeat_first` is left out"), "{warnings}");
        assert!(plan.text.contains("[optimize]"), "{}", plan.text);
    }

    /// Reads a plan at a path in a world of these files and variables.
    fn within(files: &[(&str, &str)], vars: &[(&str, &str)], path: &str) -> Plan {
        let find = |path: &Path| files.iter().find(|(name, _)| path == Path::new(name));
        let world = World {
            read: &|path| {
                find(path)
                    .map(|(_, text)| (*text).to_owned())
                    .ok_or_else(|| ErrorKind::NotFound.into())
            },
            vars: vars
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        };
        let path = Path::new(path);
        let (_, text) = find(path).expect("a file of this world");
        parse(text, Format::Toml, path, &world).expect("a valid plan")
    }

    #[test]
    fn the_text_of_a_plan_with_a_base_in_another_folder_finds_its_parameter_files() {
        let over = (
            "plans/over.toml",
            "extends = \"sub/base.toml\"\n[bench]\nparams_file = \"q.json\"\n",
        );
        let base = (
            "plans/sub/base.toml",
            "[serve]\ncommand = \"vllm serve m\"\nparams_file = \"${NAME}.json\"\n",
        );
        let files = [
            over,
            base,
            ("plans/sub/p.json", "[{\"seed\": 1}]"),
            ("plans/q.json", "[{\"seed\": 2}, {\"seed\": 3}]"),
        ];
        let plan = within(&files, &[("NAME", "p")], over.0);
        let merged = (over.0, &*plan.text);
        let read = within(&[merged, files[2], files[3]], &[], over.0);
        assert_eq!(read.serve.combos, plan.serve.combos, "{}", plan.text);
        assert_eq!((read.serve.combos.len(), read.bench.combos.len()), (1, 2));
    }

    #[test]
    fn the_text_of_a_plan_with_a_base_keeps_the_order_of_parameters() {
        let base = "[serve]\ncommand = \"vllm serve m\"\n[serve.env]\nA = [\"1\", \"2\"]\n[serve.params]\n\
                    max_num_seqs = { from = 8, to = 16, times = 2 }\n\
                    max_num_batched_tokens = { per = \"max_num_seqs\", times = 512 }\n\
                    compilation_config = { value = { mode = 3, \"a b\" = [1, 2] } }\n\
                    hf_overrides = [{ value = { a = 1 } }, { value = { a = 2 } }]\nmax_model_len = 2048\n\
                    [[serve.combos]]\nname = \"a\"\nspeculative_config = { value = { model = \"x\" } }\nseed = 1\n\
                    [bench.params]\nnum_prompts = { per = \"max_concurrency\", times = 2 }\nmax_concurrency = 2\n";
        let over = ("over.toml", "extends = \"base.toml\"\nruns = 2\n");
        let plan = within(&[("base.toml", base), over], &[], over.0);
        let read = within(&[("plan.toml", &plan.text)], &[], "plan.toml");
        let ids = |plan: &Plan| {
            let matrix = Matrix::expand(plan).expect("a valid plan");
            matrix.points().map(|point| point.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&read), ids(&plan), "{}", plan.text);
        assert_eq!(ids(&plan).len(), 8);
    }

    #[test]
    fn a_parameter_file_gives_a_command_line_as_words_or_as_a_text_without_references() {
        let plan = (
            "plan.toml",
            "[serve]\ncommand = \"vllm serve a\"\nparams_file = \"c.json\"\n",
        );
        let combos = r#"[{"command": ["vllm", "serve", "b c"]}, {"command": "sh -c '${X}'"}]"#;
        let plan = within(&[plan, ("c.json", combos)], &[], plan.0);
        let commands = plan.serve.combos.iter().map(|combo| &combo.params["command"]);
        assert_eq!(commands.collect::<Vec<_>>(), ["vllm serve 'b c'", "sh -c '${X}'"]);
    }

    const DASHED: &str = "[serve]\ncommand = \"vllm serve m\"\n[serve.params]\nmax-num-seqs = 4\n";

    /// The plan of a text with overrides.
    fn with_overrides(overrides: &[&str]) -> Result<Plan, String> {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let draft = read(
            DASHED,
            Format::Toml,
            Path::new("p.toml"),
            (&overrides, None),
            &World::empty(),
        );
        draft.and_then(Draft::finish).map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_parameter_is_overridden_in_any_spelling() {
        let plan = with_overrides(&["serve.params.max_num_seqs=8"]).expect("a plan");
        assert_eq!(plan.serve.params, [("max-num-seqs".to_owned(), Axis::Fixed(8.into()))]);
        let over = "extends = \"base.toml\"\n[serve.params]\nmax_num_seqs = [1, 2]\n";
        let plan = within(&[("base.toml", DASHED), ("over.toml", over)], &[], "over.toml");
        assert_eq!(
            plan.serve.params,
            [("max-num-seqs".to_owned(), Axis::Values(vec![1.into(), 2.into()]))]
        );
    }

    #[test]
    fn the_place_of_a_figure_is_replaced_with_its_factor() {
        let base = format!(
            "{DASHED}[bench]\ncommand = \"b\"\n[bench.result]\nmean_ttft_ms = {{ at = \"/s\", times = 1000 }}\n"
        );
        let over = "extends = \"base.toml\"\n[bench.result]\nmean_ttft_ms = { at = \"/ms\" }\n";
        let plan = within(&[("base.toml", &base), ("over.toml", over)], &[], "over.toml");
        let place = &plan.bench.result["mean_ttft_ms"];
        assert_eq!((&*place.at, place.times), ("/ms", 1.0));
    }

    /// Problems of a text in a world without files, by their messages.
    fn problems_of(text: &str) -> String {
        let plan = parse(text, Format::Toml, Path::new("plan.toml"), &World::empty());
        plan.expect_err("it has problems").to_string()
    }

    #[test]
    fn problems_that_may_follow_from_a_missing_file_are_not_told() {
        let rest = "[bench.params]\nnum_prompts = { per = \"max_concurrency\" }\n";
        let names = "[[assert]]\nwhere = { random_input_len = 64 }\np99_ttft_ms = \"<=9\"\n[exec]\nparallel = 2\nexclusive = { tensor_parallel_size = 4 }\n";
        let without_base =
            format!("version = 1\nextends = \"bse.toml\"\n[serve]\nready_timeout = \"1m\"\n{rest}{names}");
        let without_loads =
            format!("version = 1\n[serve]\ncommand = \"vllm serve m\"\n[bench]\nparams_file = \"p.json\"\n{rest}");
        for (text, file) in [(without_base, "bse.toml"), (without_loads, "p.json")] {
            let problems = problems_of(&text);
            assert_eq!(problems.matches("error: ").count(), 1, "{problems}");
            assert!(problems.contains(file), "{problems}");
        }
    }

    #[test]
    fn a_combination_launches_no_server_that_is_already_running() {
        for launch in ["command = \"vllm serve m\"", "env = { A = \"1\" }"] {
            let text = format!("version = 1\n[serve]\nurl = \"http://h:1\"\n[[serve.combos]]\n{launch}\n");
            let problems = problems_of(&text);
            assert!(problems.contains("is for a server that vsweep starts"), "{problems}");
        }
    }

    #[test]
    fn a_number_that_is_refused_gets_a_remedy_that_works() {
        let of = |more: &str| problems_of(&format!("version = 1\n[serve]\ncommand = \"vllm serve m\"\n{more}"));
        let margin = of("[report]\nmargin = 5\n");
        assert!(margin.contains("write \"5 %\""), "{margin}");
        let times = of("[bench]\ncommand = \"b\"\n[bench.result]\np99_ttft_ms = { at = \"/a\", times = 0 }\n");
        assert!(times.contains("`times` must be a positive number"), "{times}");
    }

    #[test]
    fn a_load_that_is_written_as_a_text_is_the_same() {
        let of = |more: &str| {
            let text = format!("version = 1\n[serve]\ncommand = \"vllm serve m\"\n[bench.params]\n{more}\n");
            let plan = parse(&text, Format::Toml, Path::new("plan.toml"), &World::empty()).expect("a valid plan");
            let matrix = crate::matrix::Matrix::expand(&plan).map_err(|problems| problems.to_string())?;
            Ok::<_, String>(matrix.points().map(|point| (point.id, point.name)).collect::<Vec<_>>())
        };
        let twice = of("num_prompts = [100, \"100\"]").expect_err("one load twice");
        assert!(twice.contains("is the same load twice"), "{twice}");
    }

    #[test]
    fn an_override_without_effect_is_refused() {
        for (setting, why) in [
            ("extends=base.toml", "extended by its text"),
            ("[serve]", "has no `=`"),
            ("# x=1", "not a dotted name"),
        ] {
            let told = with_overrides(&[setting]).expect_err("no override");
            assert!(told.contains(why), "{setting}: {told}");
        }
    }

    #[test]
    fn a_plan_removes_the_alternative_of_its_base_and_no_variable() {
        let base = (
            "base.toml",
            "[serve]\nurl = \"http://h:1\"\n[serve.env]\nurl = \"http://base\"\n",
        );
        let over = "extends = \"base.toml\"\n[serve]\ncommand = \"vllm serve m\"\n[serve.env]\ncommand = \"y\"\n";
        let plan = within(&[base, ("over.toml", over)], &[], "over.toml");
        assert!(matches!(plan.serve.target, Target::Launch(_)));
        let variables = ["url", "command"].map(|name| plan.origin.has(&["serve", "env", name]));
        assert_eq!(variables, [true; 2]);
    }

    #[test]
    fn what_judges_results_is_kept_with_the_values_of_its_variables() {
        let text = "# kept\n[serve]\ncommand = \"vllm serve ${M:-m}\"\n[bench.params]\nmax_concurrency = 2\n\
                    [[assert]]\nname = \"$${x}\"\np99_ttft_ms = \"<=${LIMIT}\"\nwhere = { max_concurrency = \"${NO:-2}\" }\n";
        let plan = within(&[("plan.toml", text)], &[("LIMIT", "0.5")], "plan.toml");
        assert_eq!(plan.text, text.replace("${LIMIT}", "0.5").replace("${NO:-2}", "2"));
        let read = within(&[("plan.toml", &plan.text)], &[("LIMIT", "900")], "plan.toml");
        assert_eq!(read.report.requirements, plan.report.requirements);
    }

    #[test]
    fn a_chain_of_plans_that_is_too_long_is_no_circle() {
        let next = |path: &Path| {
            let number: u32 = path.file_stem()?.to_str()?.parse().ok()?;
            Some(format!("version = 1\nextends = \"{}.toml\"\n", number + 1))
        };
        let world = World {
            read: &|path| next(path).ok_or_else(|| ErrorKind::NotFound.into()),
            ..World::empty()
        };
        let path = Path::new("0.toml");
        let text = next(path).expect("a plan");
        let problems = parse(&text, Format::Toml, path, &world)
            .expect_err("too many")
            .to_string();
        assert!(problems.contains("more than 32 plans extend each other"), "{problems}");
    }

    #[test]
    fn a_budget_replaces_that_of_the_plan_and_keeps_its_objective() {
        let optimized = GRID.replace("starts = 3\nrepeat_first = true\n", "");
        let text = format!("{optimized}[optimize]\nobjective = \"p99_ttft_ms\"\nbudget = \"9h\"\n");
        let optimize = within_an_hour(&text).optimize.expect("an optimisation");
        assert_eq!(
            (optimize.budget, optimize.objective.as_deref()),
            (HOUR, Some("p99_ttft_ms"))
        );
    }

    #[test]
    fn a_budget_ends_a_plan_without_a_choice() {
        let one = GRID.replace("[1, 2]", "1");
        let explored = format!("{GRID}[explore]\nvary = \"max_concurrency\"\n")
            .replace("repeat_first = true\n", "")
            .replace("num_prompts = 9\n", "");
        let attached = "version = 1\n[serve]\nurl = \"http://h:1\"\n[bench.params]\nnum_prompts = [8, 9]\n";
        for text in [&*one, &*explored, attached] {
            let plan = within_an_hour(text);
            assert_eq!((plan.max_time, plan.optimize), (HOUR, None), "{text}");
        }
        assert_eq!(within_an_hour(&one).starts, 3);
    }

    #[test]
    fn a_budget_limits_a_comparison() {
        let compared = GRID.replace("starts = 3\nrepeat_first = true\n", "");
        let plan = within_an_hour(&format!("{compared}[compare]\n"));
        assert!(plan.optimize.is_none());
        assert_eq!(plan.compare.and_then(|compare| compare.max_time), HOUR);
    }
}
