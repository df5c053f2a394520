//! The table of families, and what a row says.

use super::rows::TensorRow;
use super::{
    bert, deepseek2, gemma, gpt_oss, granite, lfm2, llama, olmo2, phi3, qwen, Model, NamedContents, NamedWeights,
};
use crate::config::Config;
use crate::content::Weights;
use crate::folder::ModelFolder;
use crate::metadata::Meta;
use crate::Result;

/// How a family's experts come: one by one, to be put together.
#[derive(Clone, Copy, Debug)]
pub struct ExpertLayout {
    /// What all their names have.
    pub part: &'static str,
    /// The matrices of an expert, in the order of the file.
    pub parts: [&'static str; 3],
    /// The name of a layer's expert's matrix.
    pub name: fn(usize, usize, &str) -> String,
    /// The name of all experts' matrices.
    pub stacked: fn(usize, &str) -> String,
}

/// A family of models.
#[derive(Debug)]
pub struct Family {
    /// What it is called in documents.
    pub title: &'static str,
    /// Classes of models, as `architectures` of `config.json` names them.
    pub classes: &'static [&'static str],
    /// `general.architecture`.
    pub arch: &'static str,
    /// Values of `model_type` whose configurations have defaults.
    pub(crate) model_types: &'static [&'static str],
    /// What a configuration means where it is silent.
    pub(crate) defaults: fn(&mut Config),
    /// What is read otherwise than it stands.
    pub(crate) adjust: fn(&mut Config) -> Result<()>,
    /// Tensors.
    pub(crate) rows: &'static [&'static [TensorRow]],
    /// A tensor's name in the table; none if it is no part of the text model.
    pub(crate) name: fn(&str) -> Option<String>,
    /// Whether a tensor is left out because of what the configuration says.
    pub(crate) is_left: fn(&Model, &str) -> bool,
    /// What a stored tensor becomes.
    pub(crate) modify: fn(&Model, &str, Weights) -> NamedWeights,
    /// How experts come.
    pub(crate) experts: Option<ExpertLayout>,
    /// Tensors, by their GGUF names, that come first.
    pub(crate) extra: fn(&Model, &ModelFolder, &mut Meta) -> Result<NamedContents>,
    /// Hyper-parameters; the number is `general.file_type`.
    pub(crate) parameters: fn(&Model, u32, &mut Meta) -> Result<()>,
    /// The vocabulary.
    pub(crate) vocabulary: fn(&Model, &mut Meta) -> Result<()>,
    /// Whether experts may be MXFP4.
    pub(crate) takes_mxfp4: bool,
}

/// All families.
static FAMILIES: [&Family; 17] = [
    &llama::LLAMA,
    &qwen::QWEN2,
    &qwen::QWEN3,
    &qwen::QWEN3MOE,
    &gemma::GEMMA,
    &gemma::GEMMA2,
    &gemma::GEMMA3,
    &phi3::PHI3,
    &granite::GRANITE,
    &olmo2::OLMO2,
    &llama::SMOLLM3,
    &gpt_oss::GPT_OSS,
    &deepseek2::DEEPSEEK2,
    &lfm2::LFM2,
    &bert::BERT,
    &bert::NOMIC_BERT,
    &llama::MIXTRAL,
];

/// The families that are known.
pub fn families() -> &'static [&'static Family] {
    &FAMILIES
}

/// The family of a class.
pub fn find(class: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.classes.contains(&class)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_of_one_family() {
        let classes: Vec<&str> = FAMILIES.iter().flat_map(|f| f.classes).copied().collect();
        for (i, class) in classes.iter().enumerate() {
            assert!(!classes[..i].contains(class), "{class}");
        }
    }

    #[test]
    fn names_of_a_family_stand_once() {
        for family in FAMILIES {
            let rows: Vec<&TensorRow> = family.rows.iter().flat_map(|rows| rows.iter()).collect();
            for (i, row) in rows.iter().enumerate() {
                assert!(
                    !rows[..i].iter().any(|other| other.from == row.from || other.to == row.to),
                    "{}: {}",
                    family.arch,
                    row.from
                );
                assert_eq!(row.from.contains("{}"), row.to.contains("{}"), "{}: {}", family.arch, row.from);
            }
        }
    }
}
