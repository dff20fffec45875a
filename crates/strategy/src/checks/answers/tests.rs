//! Tests with a small simulated server: the text so far decides the log probabilities of the next token, the batch adds noise, and faults
//! change the answers.

use super::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Wrong,
    Cut,
    Repeated,
    /// Only this number of words of a prompt is read.
    Truncated(usize),
}

/// Uniform in 0 to 1.
fn draw(seed: u64) -> f64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

fn hash(words: &[String]) -> u64 {
    let bytes = words.iter().flat_map(|word| word.bytes().chain([0]));
    bytes.fold(7, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

struct Server {
    fault: Fault,
    /// Noise of the batch, in nats.
    noise: f64,
    /// Seed of the noise of its batches.
    batch: u64,
}

impl Server {
    fn reply(&self, prompt: &str, asked: usize, is_batched: bool) -> Reply {
        let words: Vec<String> = prompt.split_whitespace().map(str::to_owned).collect();
        let read = match self.fault {
            Fault::Truncated(most) => words.len().min(most),
            _ => words.len(),
        };
        let mut text = words[words.len() - read..].to_vec();
        let ends = if self.fault == Fault::Cut { asked / 2 } else { asked };
        let mut tokens: Vec<Token> = Vec::new();
        for place in 0..ends {
            let context = hash(&text);
            let noise = |rank: u64| match is_batched {
                true => self.noise * (2.0 * draw(context ^ self.batch ^ (rank << 48)) - 1.0),
                false => 0.0,
            };
            // Every tenth place is a near tie.
            let steps = |rank: u64| match (rank, draw(context) < 0.1) {
                (1, true) => 0.01,
                (_, _) => -draw(context ^ (rank << 32)).ln(),
            };
            let ranked = (0..20u64).scan(-0.7, |logprob, rank| {
                *logprob -= if rank == 0 { 0.0 } else { steps(rank) };
                Some((format!(" {:04x}", hash(&text) >> 40 ^ rank), *logprob + noise(rank)))
            });
            let mut ranked: Vec<(String, f64)> = ranked.collect();
            match (self.fault, draw(context ^ 99) < 0.2) {
                (Fault::Wrong, true) => ranked[0].0 = " nonsense".to_owned(),
                (Fault::Repeated, true) if place > 0 => ranked[0].0.clone_from(&tokens[place - 1].text),
                _ => {}
            }
            ranked.sort_by(|one, other| other.1.total_cmp(&one.1));
            let (text_of, logprob) = ranked[0].clone();
            text.push(text_of.clone());
            tokens.push(Token {
                text: text_of,
                logprob: Some(logprob),
                top: ranked[..5].to_vec(),
            });
        }
        Reply {
            prompt_tokens: Some(words.len() as u64),
            asked: asked as u32,
            is_complete: false,
            tokens,
        }
    }

    fn answers(&self) -> Answers {
        let prompts = ["one two three", "two three four", "three four five", "four five six"];
        let alone: Vec<Reply> = prompts.iter().map(|prompt| self.reply(prompt, 32, false)).collect();
        let together = prompts.iter().map(|prompt| self.reply(prompt, 32, true));
        let long = |begin: &str| {
            self.reply(
                &format!("{begin} {}", "a line of the text of ten words or so on ".repeat(40)),
                8,
                false,
            )
        };
        Answers {
            model: "m".into(),
            together: alone
                .iter()
                .zip(together)
                .map(|(one, other)| one.distance(&other))
                .collect(),
            alone,
            long: Some(Long {
                lines: 40,
                replies: vec![long("amber"), long("cobalt")],
            }),
        }
    }
}

fn server(fault: Fault, noise: f64, batch: u64) -> Answers {
    Server { fault, noise, batch }.answers()
}

/// Returns the fault of a second config compared with a first one.
fn against(base: &Answers, new: &Answers) -> Option<String> {
    let asked = |server, answers| AnsweredStart {
        server,
        name: server,
        settings: 0,
        answers,
    };
    let said = judge(&[asked("base", base), asked("new", new)]);
    assert_eq!(said[0], None, "the baseline");
    said[1].clone()
}

#[test]
fn wrong_answers_are_found() {
    let base = server(Fault::None, 0.02, 1);
    for (fault, wanted) in [
        (Fault::Wrong, "differs, with log probabilities"),
        (Fault::Cut, "cut after 16 of the 32 tokens"),
        (Fault::Repeated, "differs, with log probabilities"),
        (Fault::Truncated(300), "question 5: token 1"),
    ] {
        let said = against(&base, &server(fault, 0.02, 2)).unwrap_or_default();
        assert!(said.contains(wanted), "{fault:?}: {said}");
    }
}

#[test]
fn noise_of_batches_raises_no_alarm() {
    let mut parted = 0;
    for batch in 0..200 {
        let noise = [0.0, 0.005, 0.02, 0.1, 0.3][batch as usize % 5];
        // The prompts of the base were sent in batches too, none of them alone.
        let noisy = |batch: u64| {
            let mut answers = server(Fault::None, noise, batch);
            let noisy = Server {
                fault: Fault::None,
                noise,
                batch,
            };
            let prompts = ["one two three", "two three four", "three four five", "four five six"];
            answers.alone = prompts.iter().map(|prompt| noisy.reply(prompt, 32, true)).collect();
            answers
        };
        let (base, new) = (noisy(2 * batch), noisy(2 * batch + 1));
        let apart = base
            .alone
            .iter()
            .zip(&new.alone)
            .map(|(one, other)| one.distance(other));
        parted += apart.filter(|distance| distance.parts_at.is_some()).count();
        assert_eq!(against(&base, &new), None, "noise of {noise} nats, batch {batch}");
    }
    assert!(parted > 200, "the noise parts answers: {parted}");
}

#[test]
fn a_truncated_prompt_is_found_without_a_baseline() {
    let fault = |answers: &Answers| answers.fault().unwrap_or_default();
    let mut counted = server(Fault::Truncated(100), 0.0, 1);
    for reply in &mut counted.long.as_mut().expect("asked").replies {
        reply.prompt_tokens = Some(100);
    }
    assert!(fault(&counted).contains("was cut to 100 tokens"), "{}", fault(&counted));
    // A model that finds the word in a short text, and gives the same answer for both long ones.
    let mut silent = server(Fault::Truncated(100), 0.0, 1);
    assert_eq!(fault(&silent), "", "a model that does not find the word says nothing");
    silent.alone[0].tokens[0].text = " Amber".into();
    silent.alone[1].tokens[0].text = " cobalt".into();
    assert!(
        fault(&silent).contains("beginnings were not read"),
        "{}",
        fault(&silent)
    );
    let mut whole = server(Fault::None, 0.0, 1);
    whole.alone[0].tokens[0].text = " Amber".into();
    whole.alone[1].tokens[0].text = " cobalt".into();
    assert_eq!(fault(&whole), "");
}

#[test]
fn the_baseline_is_the_plainest_config_without_fault() {
    let (good, wrong, cut) = (
        server(Fault::None, 0.0, 1),
        server(Fault::Wrong, 0.0, 1),
        server(Fault::Cut, 0.0, 1),
    );
    let asked = |server, settings, answers| AnsweredStart {
        server,
        name: server,
        settings,
        answers,
    };
    let said = judge(&[asked("many", 2, &wrong), asked("few", 1, &good), asked("cut", 0, &cut)]);
    assert!(
        said[0].as_ref().is_some_and(|said| said.starts_with("against few, ")),
        "{said:?}"
    );
    assert!(said[1].is_none() && said[2].is_some(), "{said:?}");
    let other = Answers {
        model: "another".into(),
        ..wrong.clone()
    };
    assert_eq!(judge(&[asked("a", 0, &good), asked("b", 0, &other)]), [None, None]);
}

#[test]
fn without_log_probabilities_only_answers_that_agree_nowhere_differ() {
    let words = |text: &str| Reply {
        tokens: text
            .split_inclusive(' ')
            .map(|word| Token {
                text: word.into(),
                logprob: None,
                top: Vec::new(),
            })
            .collect(),
        asked: 32,
        ..Reply::default()
    };
    let answers = |texts: [&str; 2]| Answers {
        model: "m".into(),
        alone: texts.map(words).into(),
        together: Vec::new(),
        long: None,
    };
    let base = answers(["amber is the word", "cobalt it is"]);
    assert_eq!(against(&base, &answers(["amber of course", "the word"])), None);
    assert!(against(&base, &answers(["the word", "of course"])).is_some());
}

#[test]
fn what_is_written_is_read_back() {
    let check = AnswerCheck::Answered(server(Fault::None, 0.02, 1));
    let text = serde_json::to_string(&check).expect("plain data");
    assert_eq!(serde_json::from_str::<AnswerCheck>(&text).expect("as written"), check);
}
