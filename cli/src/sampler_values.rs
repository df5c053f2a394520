//! How values of the sampler's flags are read; `/set` of a conversation reads them the same way.

use std::str::FromStr;

use pumex_step::sample::Step;

/// An order of samplers.
#[derive(Clone, Debug)]
pub struct Order(pub Vec<Step>);

/// Biases of one flag.
#[derive(Clone, Debug)]
pub struct Biases(pub Vec<(u32, f32)>);

/// An order of names.
///
/// # Errors
/// An unknown name, in words; all others: what was expected.
pub fn names(text: &str) -> Result<Order, String> {
    Step::from_names(text).map(Order)
}

fn number(text: &str, what: &str, holds: impl Fn(f32) -> bool) -> Result<f32, String> {
    match text.trim().parse::<f32>() {
        Ok(x) if x.is_finite() && holds(x) => Ok(x),
        _ => Err(format!("expected {what}")),
    }
}

/// Any number.
pub fn finite(text: &str) -> Result<f32, String> {
    number(text, "a finite number", |_| true)
}

/// A number of at least 0.
pub fn positive(text: &str) -> Result<f32, String> {
    number(text, "a finite number of at least 0", |x| x >= 0.0)
}

/// A number from 0 to 1.
pub fn share(text: &str) -> Result<f32, String> {
    number(text, "a number from 0 to 1", |x| (0.0..=1.0).contains(&x))
}

/// A number above 0 whose inverse is one, too.
pub fn factor(text: &str) -> Result<f32, String> {
    number(text, "a finite number above 0", |x| x > 0.0 && (1.0 / x).is_finite())
}

/// A whole number that its type holds.
pub fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    text.trim().parse().map_err(|_| "expected a whole number".to_string())
}

/// A number of recent tokens; -1 is all.
pub fn last_n(text: &str) -> Result<i32, String> {
    whole(text).ok().filter(|n| *n >= -1).ok_or_else(|| "expected a whole number of at least -1".to_string())
}

/// A kind of mirostat, 0 to 2.
pub fn mirostat(text: &str) -> Result<u8, String> {
    whole(text).ok().filter(|n| *n <= 2).ok_or_else(|| "expected 0, 1 or 2".to_string())
}

/// ID+X or ID-X, with commas between several.
pub fn biases(text: &str) -> Result<Biases, String> {
    let one = |part: &str| {
        let at = part.find(['+', '-'])?;
        let id = part[..at].trim().parse::<u32>().ok()?;
        let by = part[at + 1..].trim().parse::<f32>().ok()?;
        let by = if part[at..].starts_with('-') { -by } else { by };
        (by.is_finite() || by == f32::NEG_INFINITY).then_some((id, by))
    };
    let all: Option<Vec<_>> = text.split(',').map(one).collect();
    all.map(Biases).ok_or_else(|| "expected ID+X or ID-X, as in 15043+1 or 2-inf".to_string())
}
