//! Samples by measure and server, kept by round, and what is said of them.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Default)]
pub struct Samples {
    rounds: Vec<Vec<f64>>,
}

impl Samples {
    fn add(&mut self, round: usize, nanos: f64) {
        if self.rounds.len() <= round {
            self.rounds.resize_with(round + 1, Vec::new);
        }
        self.rounds[round].push(nanos);
    }

    /// The value below which the given part of all samples lies.
    pub fn quantile(&self, part: f64) -> f64 {
        quantile(self.rounds.iter().flatten().copied().collect(), part)
    }
}

fn quantile(mut values: Vec<f64>, part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len().saturating_sub(1);
    let index = (part * last as f64).round() as usize;
    values.get(index).copied().unwrap_or(f64::NAN)
}

#[derive(Default)]
pub struct Figures(BTreeMap<(String, &'static str), Samples>);

impl Figures {
    pub fn add(&mut self, measure: &str, server: &'static str, round: usize, took: Duration) {
        self.0.entry((measure.to_owned(), server)).or_default().add(round, took.as_secs_f64() * 1e9);
    }

    pub fn get(&self, measure: &str, server: &'static str) -> Option<&Samples> {
        self.0.get(&(measure.to_owned(), server))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&(String, &'static str), &Samples)> {
        self.0.iter()
    }

    /// How much longer one takes than another. Medians are compared round by round, so that what the machine did
    /// meanwhile cancels; the middle of those ratios counts. Rare values, fast or slow, can only be compared over the whole run.
    pub fn ratio(&self, of: (&str, &'static str), to: (&str, &'static str), part: f64) -> Option<f64> {
        let (of, to) = (self.get(of.0, of.1)?, self.get(to.0, to.1)?);
        if (part - 0.5).abs() > 0.01 {
            return Some(of.quantile(part) / to.quantile(part));
        }
        let pairs = of.rounds.iter().zip(&to.rounds).filter(|(of, to)| !of.is_empty() && !to.is_empty());
        Some(quantile(pairs.map(|(of, to)| quantile(of.clone(), part) / quantile(to.clone(), part)).collect(), 0.5))
    }
}
