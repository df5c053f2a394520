//! What an importance matrix does not say of the tensors that are to be weighed by it.

use super::{is_float, Options, Plan};
use pumex_gguf::imatrix::ImatrixEntry;
use pumex_gguf::{type_name, Gguf};
use pumex_quant::FormatId;

/// Most names of a warning.
const MOST_NAMES: usize = 12;
/// Types of so few bits that weights come out badly unless columns that matter count more.
const WANT_A_MATRIX: [FormatId; 5] =
    [FormatId::Iq1S, FormatId::Iq1M, FormatId::Iq2Xxs, FormatId::Iq2Xs, FormatId::Iq2S];
/// Matrices do not say anything of these: rows of embeddings are looked up, and outputs are left out unless asked for.
const UNSEEN: [&str; 3] = ["token_embd.weight", "per_layer_token_embd.weight", "output.weight"];

/// Some names, and how many there are more.
fn listed(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Rows of an entry that say nothing: of experts that no token took, or of columns that were always 0.
fn silent(entry: &ImatrixEntry) -> usize {
    let cols = entry.mean.len() / entry.matrices.max(1);
    let rows = entry.mean.chunks(cols.max(1)).enumerate();
    let is_silent = |(i, row): (usize, &[f32])| {
        entry.counts.get(i).is_some_and(|count| *count <= 0.0) || row.iter().all(|mean| *mean == 0.0)
    };
    rows.filter(|row| is_silent(*row)).count()
}

/// A line for each kind of gap. `asked` holds for names of tensors that the user does not keep the matrix from.
pub fn gaps(gguf: &Gguf, plan: &Plan, options: &Options, asked: &dyn Fn(&str) -> bool) -> Vec<String> {
    let jobs = || plan.jobs().filter(|job| job.to.is_some() && !is_float(job.entry.type_id));
    let wants = |id: u32| WANT_A_MATRIX.iter().any(|want| want.format().ggml_id == id);
    let Some((imatrix, path)) = &options.imatrix else {
        let without: Vec<String> =
            jobs().filter(|job| wants(job.entry.type_id)).map(|job| job.entry.name.clone()).collect();
        let ids = jobs().map(|job| job.entry.type_id).find(|id| wants(*id));
        let told = ids.map(|id| {
            let (name, listed) = (type_name(id), listed(&without));
            format!("{name} wants an importance matrix (--imatrix), without which little is left of a model: {listed}")
        });
        return told.into_iter().collect();
    };
    let (mut missing, mut hurt, mut zero, mut experts, mut found) = (Vec::new(), false, Vec::new(), Vec::new(), 0);
    for job in jobs() {
        let name = &gguf.tensors()[job.tensor].name;
        match imatrix.entries.get(name) {
            None if UNSEEN.contains(&name.as_str()) && !wants(job.entry.type_id) || !asked(name) => {}
            None => {
                hurt |= wants(job.entry.type_id);
                missing.push(name.clone());
            }
            Some(entry) => {
                found += 1;
                match silent(entry) {
                    0 => {}
                    all if all == entry.matrices => zero.push(name.clone()),
                    some => experts.push(format!("{name} ({some} of {})", entry.matrices)),
                }
            }
        }
    }
    let path = path.display();
    let mut lines = Vec::new();
    if !missing.is_empty() {
        let none = if found == 0 { ", and none of its names is one of this model's tensors" } else { "" };
        let hurt = if hurt { "; types of so few bits want it" } else { "" };
        let (count, all) = (missing.len(), listed(&missing));
        lines.push(format!("{path}: no importance of {count} tensors, whose columns count alike{none}{hurt}: {all}"));
    }
    if !zero.is_empty() {
        lines.push(format!("{path}: importance 0 in all columns, which count alike: {}", listed(&zero)));
    }
    if !experts.is_empty() {
        lines.push(format!("{path}: experts that no token took, whose columns count alike: {}", listed(&experts)));
    }
    lines
}
