//! Prompts of several classes in one load. Each class has its own dataset and a share of the requests.
//!
//! The class of a request follows from the seed and the position of the request, never from time. Each class draws its prompts in the order
//! of its dataset, so a mix of one class has the prompts of the dataset alone.

use super::endless::Take;
use super::{Dataset, Draw, Item, Material, PromptParams, Sampling, Traits, draw_endlessly};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder};
use vsweep_metrics::rng::Shares;

/// Largest number of classes of a mix. No table could show more.
pub const MOST_CLASSES: usize = 32;
/// Difference between the seeds of two classes. It is large, so that no class has the seed of another class in a run with a nearby seed.
const NEXT_CLASS_SEED: u32 = 0x85eb_ca6b;
/// Number of requests that are passed on at a time.
const PART: usize = 256;

/// A load of several classes.
#[derive(Debug, Clone)]
pub struct Mix {
    /// The classes in their order; at least one.
    pub classes: Vec<Class>,
}

/// One class of a mix.
#[derive(Debug, Clone)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its weight among all classes.
    pub weight: f64,
    /// Source of its prompts.
    pub dataset: Arc<dyn Dataset>,
    /// Its own parameters of prompts, and those of the load.
    pub prompts: PromptParams,
}

impl Mix {
    /// Returns the assignment of requests to classes in a run with this seed.
    pub fn shares(&self, seed: u64) -> Shares {
        Shares::new(seed, self.classes.iter().map(|class| class.weight))
    }

    /// Draws until no more requests are wanted, or a class has none left. If `first` is set, the drawing begins like that of a run with
    /// this number of requests.
    pub fn draw_endlessly(&self, draw: &Draw<'_>, first: Option<usize>, take: &mut Take<'_>) -> Result<(), String> {
        if let [only] = self.classes.as_slice() {
            let draw = only.part_of(draw, 0, 0);
            return draw_endlessly(&*only.dataset, &draw, first, take);
        }
        let shares = self.shares(draw.sampling.seed);
        let counts = first.map(|first| self.counts(&shares, first));
        thread::scope(|scope| {
            let source = |place: usize, class: &Class| {
                let first = counts.as_ref().map(|counts| counts[place]);
                let draw = class.part_of(draw, place, 0);
                let (give, parts) = sync_channel(1);
                let (dataset, thread) = (class.dataset.clone(), Builder::new().name("vsweep-class".to_owned()));
                let drawing = thread.spawn_scoped(scope, move || draw_into(&*dataset, &draw, first, &give));
                match drawing {
                    Ok(_) => Ok(parts.into_iter().flatten()),
                    Err(error) => Err(format!("cannot start drawing: {error}; raise the limit of processes")),
                }
            };
            let sources = self.classes.iter().enumerate();
            let sources: Result<Vec<_>, String> = sources.map(|(place, class)| source(place, class)).collect();
            interleave(sources?, &shares, take)
        })
    }

    /// Number of requests of each class among the first `count`.
    fn counts(&self, shares: &Shares, count: usize) -> Vec<usize> {
        let mut counts = vec![0; self.classes.len()];
        (0..count).for_each(|place| counts[shares.at(place)] += 1);
        counts
    }

    /// Returns true if all classes have the trait.
    fn all(&self, has: impl Fn(Traits) -> bool) -> bool {
        self.classes.iter().all(|class| has(class.dataset.traits()))
    }

    /// Returns true if at least one class has the trait.
    fn any(&self, has: impl Fn(Traits) -> bool) -> bool {
        !self.all(|traits| !has(traits))
    }
}

impl Class {
    /// Returns the sampling of `num_prompts` of its requests. `place` is the index of the class, from which its seed follows.
    pub fn sampling(&self, of_mix: Sampling, place: usize, num_prompts: usize) -> Sampling {
        let seed = match place {
            0 => of_mix.seed,
            place => (of_mix.seed as u32)
                .wrapping_add((place as u32).wrapping_mul(NEXT_CLASS_SEED))
                .into(),
        };
        self.prompts.sampling(num_prompts, seed)
    }

    /// Returns the draw of this class, which has the index `place`, within the draw of the mix.
    fn part_of<'a>(&self, of_mix: &Draw<'a>, place: usize, num_prompts: usize) -> Draw<'a> {
        Draw {
            sampling: self.sampling(of_mix.sampling, place, num_prompts),
            template: of_mix.template.filter(|_| self.dataset.traits().wants_template),
            ..*of_mix
        }
    }
}

/// Draws the requests of a class, and sends them until the receiver is dropped. An error ends the drawing, and is sent too.
fn draw_into(
    dataset: &dyn Dataset,
    draw: &Draw<'_>,
    first: Option<usize>,
    give: &SyncSender<Vec<Result<Item, String>>>,
) {
    let mut take = |part: Vec<Item>| Ok(give.send(part.into_iter().map(Ok).collect()).is_ok());
    if let Err(error) = draw_endlessly(dataset, draw, first, &mut take) {
        // The receiver is dropped once enough was taken.
        let _ = give.send(vec![Err(error)]);
    }
}

/// Passes on the requests of all classes in the order that `shares` determines. Dropping the sources ends their drawing.
fn interleave(
    mut sources: Vec<impl Iterator<Item = Result<Item, String>>>,
    shares: &Shares,
    take: &mut Take<'_>,
) -> Result<(), String> {
    let mut next = 0;
    let mut is_over = false;
    while !is_over {
        let mut part = Vec::with_capacity(PART);
        while part.len() < PART && !is_over {
            let class = shares.at(next);
            match sources[class].next().transpose()? {
                Some(item) => part.push(Item {
                    // Each class numbers its requests from 0.
                    id: item.id.as_ref().map(|_| next.to_string()),
                    class: class as u8,
                    ..item
                }),
                None => is_over = true,
            }
            next += 1;
        }
        is_over |= !part.is_empty() && !take(part)?;
    }
    Ok(())
}

impl Dataset for Mix {
    fn traits(&self) -> Traits {
        let traits = |at: usize| self.classes[at].dataset.traits();
        let made_of = traits(0).made_of;
        let is_alike = self.all(|traits| traits.made_of == made_of);
        Traits {
            made_of: if is_alike { made_of } else { Material::Mixed },
            wants_template: self.any(|traits| traits.wants_template),
            ignores_seed: self.any(|traits| traits.ignores_seed),
            depends_on_counts: self.any(|traits| traits.depends_on_counts),
            may_be_cut: self.all(|traits| traits.may_be_cut),
            fixes_outputs: self.all(|traits| traits.fixes_outputs),
            // With several classes, each raises its own draws to the least number of its dataset.
            least: if self.classes.len() == 1 { traits(0).least } else { 0 },
            shared_share: (0..self.classes.len())
                .map(|at| traits(at).shared_share)
                .fold(0.0, f64::max),
            ..Traits::default()
        }
    }

    fn draw(&self, draw: &Draw<'_>) -> Result<Vec<Item>, String> {
        self.draw_whole(draw)
    }

    fn draw_in_parts(
        &self,
        draw: &Draw<'_>,
        take: &mut dyn FnMut(Vec<Item>) -> Result<(), String>,
    ) -> Result<(), String> {
        let count = draw.sampling.num_prompts;
        if let [only] = self.classes.as_slice() {
            return only.dataset.draw_in_parts(&only.part_of(draw, 0, count), take);
        }
        let mut left = count;
        self.draw_endlessly(draw, Some(count), &mut |mut part| {
            part.truncate(left);
            left -= part.len();
            take(part)?;
            Ok(left > 0)
        })
    }

    fn lengths(&self, sampling: &Sampling, vocabulary: u64) -> Option<Vec<(u64, u64)>> {
        let shares = self.shares(sampling.seed);
        let counts = self.counts(&shares, sampling.num_prompts);
        let of_classes = self
            .classes
            .iter()
            .zip(&counts)
            .enumerate()
            .map(|(place, (class, count))| {
                let sampling = class.sampling(*sampling, place, *count);
                class.dataset.lengths(&sampling, vocabulary)
            });
        let of_classes = of_classes.collect::<Option<Vec<_>>>()?;
        // A dataset that draws too few requests draws again. The lengths of the first draw stand in for those of the others.
        let mut of_classes: Vec<_> = of_classes.into_iter().map(|all| all.into_iter().cycle()).collect();
        let mut next = |place: usize| of_classes[shares.at(place)].next();
        Some((0..sampling.num_prompts).map_while(&mut next).collect())
    }

    fn to_download(&self) -> Option<&str> {
        self.classes.iter().find_map(|class| class.dataset.to_download())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Custom, OutputLen, Random, RangeRatio, Vocabulary};
    use super::*;
    use crate::params::ParamReader;

    fn random(input_len: u64, output_len: u64) -> Random {
        Random {
            input_len,
            output_len,
            range_ratio: RangeRatio {
                input: 0.5,
                output: 0.2,
            },
            prefix_len: 0,
            batch_size: 1,
        }
    }

    fn class(name: &str, weight: f64, dataset: impl Dataset + 'static) -> Class {
        let none = serde_json::Map::new();
        Class {
            name: name.to_owned(),
            weight,
            dataset: Arc::new(dataset),
            prompts: PromptParams::read(&mut ParamReader::new(&none, |_| None, str::to_owned)),
        }
    }

    fn chat_and_documents() -> Mix {
        let classes = vec![
            class("chat", 7.0, random(20, 9)),
            class("documents", 3.0, random(200, 4)),
        ];
        Mix { classes }
    }

    fn sampling(num_prompts: usize, seed: u64) -> Sampling {
        Sampling {
            num_prompts,
            seed,
            shuffle: true,
            oversample: true,
        }
    }

    fn drawn(dataset: &dyn Dataset, num_prompts: usize) -> Vec<Item> {
        let draw = Draw::of(sampling(num_prompts, 5), &Vocabulary::Ids(100..9000));
        dataset.draw(&draw).expect("drawn")
    }

    #[test]
    fn one_class_has_the_prompts_of_its_dataset() {
        let alone = Mix {
            classes: vec![class("all", 0.3, random(20, 9))],
        };
        assert_eq!(drawn(&alone, 700), drawn(&random(20, 9), 700));
        let mut endless = vec![];
        let draw = Draw::of(sampling(0, 5), &Vocabulary::Ids(100..9000));
        let taken = alone.draw_endlessly(&draw, Some(700), &mut |part| {
            endless.extend(part);
            Ok(endless.len() < 700)
        });
        taken.expect("drawn");
        assert_eq!(endless[..700], drawn(&random(20, 9), 700));
    }

    #[test]
    fn each_class_draws_its_own_prompts_in_the_order_of_the_shares() {
        let (mix, count) = (chat_and_documents(), 3000);
        let items = drawn(&mix, count);
        let shares = mix.shares(5);
        for (place, item) in items.iter().enumerate() {
            assert_eq!(usize::from(item.class), shares.at(place));
            assert_eq!(item.id.as_deref(), Some(place.to_string().as_str()));
        }
        let of_class = |class: u8| items.iter().filter(move |item| item.class == class);
        let chat = of_class(0).count();
        assert!(
            (0.65..0.75).contains(&(chat as f64 / count as f64)),
            "{chat} of {count}"
        );
        let prompts =
            |items: &mut dyn Iterator<Item = &Item>| items.map(|item| item.prompt.clone()).collect::<Vec<_>>();
        let alone = drawn(&random(20, 9), chat);
        assert_eq!(
            prompts(&mut of_class(0)),
            prompts(&mut alone.iter()),
            "the first class has the seed of the run"
        );
        assert!(of_class(1).all(|item| (100..=300).contains(&item.prompt_len)));
        let lengths: Vec<_> = items.iter().map(|item| (item.prompt_len, item.output_len)).collect();
        assert_eq!(mix.lengths(&sampling(count, 5), 9000), Some(lengths));
    }

    #[test]
    fn a_run_without_an_end_begins_like_one_of_a_number() {
        let (mix, mut all) = (chat_and_documents(), vec![]);
        let draw = Draw::of(sampling(0, 5), &Vocabulary::Ids(100..9000));
        let taken = mix.draw_endlessly(&draw, Some(1000), &mut |part| {
            all.extend(part);
            Ok(all.len() < 2000)
        });
        taken.expect("drawn");
        assert_eq!(all[..1000], drawn(&mix, 1000));
    }

    #[test]
    fn a_file_that_is_used_up_ends_the_run() {
        let file = tempfile::Builder::new().suffix(".jsonl").tempfile().expect("a file");
        let rows: String = (0..20).map(|row| format!("{{\"prompt\": \"row {row}\"}}\n")).collect();
        std::fs::write(file.path(), rows).expect("written");
        let custom = Custom {
            path: file.path().to_owned(),
            output_len: OutputLen::Fixed(3),
        };
        let mut mix = chat_and_documents();
        mix.classes.push(class("files", 1.0, custom));
        mix.classes[2].prompts.no_oversample = true;
        let items = drawn(&mix, 1000);
        assert_eq!(items.iter().filter(|item| item.class == 2).count(), 20);
        assert!(items.len() < 1000 && mix.traits().made_of == Material::Mixed);
        mix.classes[2].prompts.no_oversample = false;
        assert_eq!(drawn(&mix, 1000).len(), 1000);
    }
}
