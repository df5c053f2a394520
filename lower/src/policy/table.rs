//! The form of what is chosen: conditions and tiles as plain data, each with what it rests on. A class of devices has one
//! [`ClassChoices`]; in its tables the first row that holds counts.

use super::shared::table_bytes;
use super::ActivationQuant;
use pumex_quant::{tables, Format, FormatId};

/// What a choice rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Measured: a heading of a file in `benches/archive`, which begins with date and device.
    Record(&'static str),
    /// Not measured on such a device; why it is chosen all the same.
    Estimate(&'static str),
    /// Measured by `tune` on the very device.
    Tuned,
}

impl Evidence {
    /// In a few words.
    pub fn describe(self) -> String {
        match self {
            Evidence::Record(heading) => format!("measured {}", heading.split(':').next().unwrap_or(heading)),
            Evidence::Estimate(why) => format!("estimate: {why}"),
            Evidence::Tuned => "measured on this device".into(),
        }
    }
}

/// Whole numbers from `from` on, below `below`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub from: usize,
    /// The first that is too many.
    pub below: usize,
}

impl Span {
    /// All numbers.
    pub const ALL: Span = Span { from: 0, below: usize::MAX };
    /// 1 alone.
    pub const ONE: Span = Span { from: 1, below: 2 };

    /// Those below `n`.
    pub const fn below(n: usize) -> Span {
        Span { from: 0, below: n }
    }

    /// Those from `n` on.
    pub const fn from(n: usize) -> Span {
        Span { from: n, below: usize::MAX }
    }

    /// Whether `n` is one.
    pub fn holds(self, n: usize) -> bool {
        (self.from..self.below).contains(&n)
    }
}

/// A set of weight formats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Formats {
    /// All.
    Any,
    /// These.
    These(&'static [FormatId]),
    /// Those of fewer bits per weight than this.
    BitsBelow(f32),
    /// Those of at least so many bits per weight.
    BitsFrom(f32),
    /// Those whose kernels keep a table in shared memory.
    Tables,
    /// Those whose table is a codebook: several weights an entry.
    Codebooks,
    /// Those that devices hold with the codebook's entries written out.
    Expanded,
}

impl Formats {
    /// Whether a format is among them.
    pub fn holds(self, format: &Format) -> bool {
        match self {
            Formats::Any => true,
            Formats::These(ids) => ids.contains(&format.id),
            Formats::BitsBelow(bits) => format.bits() < bits,
            Formats::BitsFrom(bits) => format.bits() >= bits,
            Formats::Tables => table_bytes(format) > 0,
            Formats::Codebooks => tables::of(format.id).is_some_and(|t| t.pack_levels().is_none()),
            Formats::Expanded => format.is_expanded(),
        }
    }
}

/// A product that a tile is sought for.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Format of its weights.
    pub format: &'a Format,
    /// Outputs, `m`.
    pub outputs: usize,
    /// Inputs, `k`.
    pub inputs: usize,
    /// Activation rows, `n`.
    pub columns: usize,
    /// Gate and up in one.
    pub gated: bool,
    /// How integer kernels quantize its activations.
    pub activations: ActivationQuant,
}

/// When a row holds: in all of these.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct When {
    /// Formats of weights.
    pub formats: Formats,
    /// Outputs.
    pub outputs: Span,
    /// Inputs.
    pub inputs: Span,
    /// Activation rows.
    pub columns: Span,
    /// Gated or not; none for both.
    pub gated: Option<bool>,
    /// How activations are quantized; none for all.
    pub activations: Option<ActivationQuant>,
}

/// Always.
pub const ALWAYS: When = When {
    formats: Formats::Any,
    outputs: Span::ALL,
    inputs: Span::ALL,
    columns: Span::ALL,
    gated: None,
    activations: None,
};

impl When {
    /// Whether a product fulfils it.
    pub fn holds(&self, p: &Product<'_>) -> bool {
        self.formats.holds(p.format)
            && self.outputs.holds(p.outputs)
            && self.inputs.holds(p.inputs)
            && self.columns.holds(p.columns)
            && self.gated.is_none_or(|gated| gated == p.gated)
            && self.activations.is_none_or(|activations| activations == p.activations)
    }
}

/// Most workgroups of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// So many for each multiprocessor.
    PerCore(u32),
    /// So many.
    Fixed(u32),
    /// All that there is work for.
    All,
}

impl Groups {
    /// The number for a device of so many multiprocessors.
    pub fn on(self, cores: u32) -> u32 {
        match self {
            Groups::PerCore(n) => n * cores,
            Groups::Fixed(n) => n,
            Groups::All => u32::MAX,
        }
    }
}

/// A shape of a GEMV.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GemvRow {
    /// What it is for, in a few words; no two rows of a table have the same.
    pub name: &'static str,
    /// When it holds.
    pub when: When,
    /// Threads of a workgroup.
    pub threads: u32,
    /// Outputs at a time: of a subgroup by integers, of a workgroup by floats.
    pub rows: u32,
    /// Most workgroups.
    pub groups: Groups,
    /// What it rests on.
    pub evidence: Evidence,
}

/// A shape of `gemm_few`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewRow {
    /// What it is for.
    pub name: &'static str,
    /// When it holds.
    pub when: When,
    /// Threads of a workgroup.
    pub threads: u32,
    /// Subgroups that share a row's inputs.
    pub split: u32,
    /// Most workgroups of a multiprocessor; [`u32::MAX`] for as many as there is work for.
    pub per_core: u32,
    /// What it rests on.
    pub evidence: Evidence,
}

/// Most activation rows that GEMV is for; above, the tiled GEMM is used.
pub const GEMV_MAX_COLS: usize = 8;

/// Most query heads a workgroup takes: their sums are held in registers.
pub const ATTN_HEADS: usize = 8;

/// Query heads that a workgroup of decode attention takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadsRow {
    /// By cooperative matrices or not; none for both.
    pub matrices: Option<bool>,
    /// Positions of the longest sequence.
    pub positions: Span,
    /// Most heads.
    pub heads: usize,
    /// What it rests on.
    pub evidence: Evidence,
}

/// A choice without conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known<T> {
    /// What is chosen.
    pub value: T,
    /// What it rests on.
    pub evidence: Evidence,
}

/// A choice and what it rests on.
pub const fn known<T>(value: T, evidence: Evidence) -> Known<T> {
    Known { value, evidence }
}

/// Decode attention without matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitAttention {
    /// Threads of a workgroup.
    pub threads: u32,
    /// Positions it takes at a time.
    pub span: u32,
    /// Positions that are worth a workgroup.
    pub least: u32,
}

/// A tile of attention of many rows without matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefillTile {
    /// Widest heads that it takes.
    pub dim: usize,
    /// Most rows.
    pub rows: u32,
    /// Most positions.
    pub span: u32,
}

/// For all heads.
pub const USUAL_PREFILL: &[PrefillTile] = &[PrefillTile { dim: usize::MAX, rows: 32, span: 32 }];

/// A product with a router's matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterShape {
    /// Workgroups of so many threads, or of a subgroup if that is more, that take so many experts each.
    Fixed {
        /// Threads.
        threads: u32,
        /// Experts.
        experts: u32,
    },
    /// A workgroup for each expert, of a thread for 32 inputs, as far as `threads` go.
    Spread {
        /// Most threads.
        threads: u32,
    },
}

/// How weights reach cooperative matrices that a workgroup holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WeightSource {
    /// Halves in memory: a matrix of them, or what `decode_weights` leaves.
    Halves,
    /// Decoded by the load, element by element.
    Load,
    /// Decoded into shared memory, a chunk by a thread.
    Shared,
}

/// How a kernel multiplies packed rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManyRows {
    /// By cooperative matrices of bytes that come from shared memory.
    Bytes,
    /// By cooperative matrices that a workgroup holds, whose weights come so.
    Group(WeightSource),
    /// By cooperative matrices of halves that come from shared memory.
    Staged,
    /// By integer dot products of bytes.
    Dot,
    /// By products of halves.
    Half,
}

impl ManyRows {
    /// All of them.
    pub const ALL: [ManyRows; 7] = [
        ManyRows::Group(WeightSource::Halves),
        ManyRows::Group(WeightSource::Shared),
        ManyRows::Group(WeightSource::Load),
        ManyRows::Bytes,
        ManyRows::Staged,
        ManyRows::Dot,
        ManyRows::Half,
    ];
    /// Those of subgroups, the best first where matrices of bytes are fast.
    pub const WITH_BYTES: [ManyRows; 4] = [ManyRows::Bytes, ManyRows::Staged, ManyRows::Dot, ManyRows::Half];
    /// Those that are used without anything known of the device but what it has.
    pub const USUAL: [ManyRows; 3] = [ManyRows::Staged, ManyRows::Dot, ManyRows::Half];

    /// Row of the kernel table.
    pub const fn kernel(self) -> &'static str {
        match self {
            ManyRows::Bytes => "gemm_bytes",
            ManyRows::Group(_) => "gemm_matrix2",
            ManyRows::Staged => "gemm_staged",
            ManyRows::Dot => "gemm_dot",
            ManyRows::Half => "gemm_half",
        }
    }

    /// The kernel, and how weights come to it where there are several ways, as `pumex tune` tells of it and keeps it.
    pub fn label(self) -> String {
        match self {
            ManyRows::Group(source) => format!("{}, {source:?}", self.kernel()),
            _ => self.kernel().into(),
        }
    }

    /// Bits of an activation.
    pub fn bits(self) -> u32 {
        match self {
            ManyRows::Bytes | ManyRows::Dot => 8,
            ManyRows::Half | ManyRows::Staged | ManyRows::Group(_) => 16,
        }
    }
}

/// What a class of devices takes for many rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ManyRowsShape {
    /// Which kernels, the best first; none where all goes in floats.
    pub by: &'static [ManyRows],
    /// Formats that go by matrices of bytes, if these are among them.
    pub bytes: Formats,
    /// Fours of rows that a thread takes: 1 or 2.
    pub wide: u32,
    /// Chunks that shared memory holds where matrices come from there: 1, or 2 where there is room.
    pub buffers: u32,
}

/// How weights reach memory that is the device's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UploadShape {
    /// Most threads of the host that fill batches.
    pub threads: usize,
    /// Bytes of a batch.
    pub batch_bytes: usize,
    /// Slots that hold batches.
    pub slots: usize,
    /// Why so, for logs.
    pub reason: &'static str,
}

/// Everything that is chosen for a class of devices.
#[derive(Clone, Copy, Debug)]
pub struct ClassChoices {
    /// Whether all of it was measured on such devices or taken from others.
    pub evidence: Evidence,
    /// How integer kernels quantize activations.
    pub activations: Known<ActivationQuant>,
    /// Shapes of `gemv_dot`.
    pub gemv: &'static [GemvRow],
    /// Products of which a thread of `gemv_dot` has two chunks under way, if all inputs are held at once.
    pub two_chunks: Known<&'static [When]>,
    /// Shapes of `gemv`.
    pub gemv_float: &'static [GemvRow],
    /// Activations that a thread of `gemv_dot` holds at most until they are coded; longer inputs are coded slice by slice.
    pub held: Known<u32>,
    /// Most activation rows that a dispatch of either takes; more are several dispatches.
    pub gemv_columns: Known<usize>,
    /// Products, whatever their outputs, of which a dispatch takes fewer.
    pub fewer_columns: Known<&'static [(When, usize)]>,
    /// Products whose gate and up, if they have both, a subgroup of `gemv_dot` takes one after the other.
    pub gates_apart: Known<&'static [When]>,
    /// Threads of a workgroup that multiplies with an expert's matrices.
    pub expert_threads: Known<u32>,
    /// Shapes of `gemm_few`.
    pub gemm_few: &'static [FewRow],
    /// Products of many rows without matrices whose layout is known.
    pub many_rows: Known<ManyRowsShape>,
    /// Whether small products of floats go through `gemm_float`.
    pub small_float_tiles: Known<bool>,
    /// Threads of a megakernel's workgroup, one on each multiprocessor; none where a megakernel is no gain.
    pub megakernel_threads: Known<Option<u32>>,
    /// Heads of a workgroup of decode attention.
    pub attention_heads: &'static [HeadsRow],
    /// Its shape without matrices.
    pub split_attention: Known<SplitAttention>,
    /// Tiles of attention of many rows without matrices, of the first that takes such heads.
    pub prefill: Known<&'static [PrefillTile]>,
    /// Workgroups that keep the memory busy.
    pub busy_groups: Known<usize>,
    /// Most threads that choose a row's experts.
    pub route_threads: Known<u32>,
    /// The router's product.
    pub router: Known<RouterShape>,
    /// Most threads of a workgroup that takes a row (norm, argmax).
    pub row_threads: Known<u32>,
    /// Most threads of a workgroup that samples.
    pub sample_threads: Known<u32>,
    /// How weights are sent.
    pub upload: Known<UploadShape>,
    /// Whether pipelines are built while weights are sent.
    pub builds_ahead: Known<bool>,
}

impl ClassChoices {
    /// What all of it rests on.
    pub fn all_evidence(&self) -> Vec<Evidence> {
        let rows = self.gemv.iter().chain(self.gemv_float).map(|r| r.evidence);
        let rows = rows.chain(self.gemm_few.iter().map(|r| r.evidence));
        let rows = rows.chain(self.attention_heads.iter().map(|r| r.evidence));
        let singles = [
            self.evidence,
            self.activations.evidence,
            self.two_chunks.evidence,
            self.held.evidence,
            self.gemv_columns.evidence,
            self.fewer_columns.evidence,
            self.gates_apart.evidence,
            self.expert_threads.evidence,
            self.many_rows.evidence,
            self.small_float_tiles.evidence,
            self.megakernel_threads.evidence,
            self.split_attention.evidence,
            self.prefill.evidence,
            self.busy_groups.evidence,
            self.route_threads.evidence,
            self.router.evidence,
            self.row_threads.evidence,
            self.sample_threads.evidence,
            self.upload.evidence,
            self.builds_ahead.evidence,
        ];
        rows.chain(singles).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{amd, intel, mobile, nvidia, portable, software};
    use super::*;

    /// What was measured is in the archive, and a name of a row says which one it is.
    #[test]
    fn evidence_stands_in_the_archive_and_rows_have_names_of_their_own() {
        let archive = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../benches/archive");
        let files = std::fs::read_dir(archive).unwrap();
        let record: String = files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
        let all = [&nvidia::CHOICES, &nvidia::PASCAL, &portable::CHOICES, &software::CHOICES];
        for choices in all.into_iter().chain([
            &amd::RDNA,
            &amd::RDNA1,
            &amd::RDNA3,
            &amd::RDNA4,
            &amd::GCN,
            &intel::XE1,
            &intel::XE2,
            &mobile::CHOICES,
        ]) {
            for evidence in choices.all_evidence() {
                match evidence {
                    Evidence::Record(heading) => assert!(record.contains(&format!("\n## {heading}\n")), "{heading}"),
                    Evidence::Estimate(why) => assert!(!why.is_empty()),
                    Evidence::Tuned => panic!("no table was tuned"),
                }
            }
            for names in [choices.gemv, choices.gemv_float].map(|t| t.iter().map(|r| r.name).collect::<Vec<_>>()) {
                let distinct: std::collections::HashSet<_> = names.iter().collect();
                assert_eq!(distinct.len(), names.len(), "{names:?}");
            }
        }
    }

    #[test]
    fn conditions_hold_within_their_limits_only() {
        let q4_k = pumex_quant::FORMATS.iter().find(|f| f.id == FormatId::Q4K).unwrap();
        let product = Product {
            format: q4_k,
            outputs: 4096,
            inputs: 8192,
            columns: 1,
            gated: false,
            activations: ActivationQuant::Q8,
        };
        assert!(ALWAYS.holds(&product));
        let cases = [
            (When { outputs: Span::below(4097), ..ALWAYS }, true),
            (When { outputs: Span::below(4096), ..ALWAYS }, false),
            (When { outputs: Span::from(4096), ..ALWAYS }, true),
            (When { outputs: Span::from(4097), ..ALWAYS }, false),
            (When { inputs: Span::below(8192), ..ALWAYS }, false),
            (When { columns: Span::ONE, ..ALWAYS }, true),
            (When { columns: Span::from(2), ..ALWAYS }, false),
            (When { gated: Some(true), ..ALWAYS }, false),
            (When { gated: Some(false), ..ALWAYS }, true),
            (When { activations: Some(ActivationQuant::Q16), ..ALWAYS }, false),
            (When { formats: Formats::These(&[FormatId::Q5K]), ..ALWAYS }, false),
            (When { formats: Formats::These(&[FormatId::Q5K, FormatId::Q4K]), ..ALWAYS }, true),
            (When { formats: Formats::BitsBelow(4.5), ..ALWAYS }, false),
            (When { formats: Formats::BitsFrom(4.5), ..ALWAYS }, true),
            (When { formats: Formats::Tables, ..ALWAYS }, false),
            (When { formats: Formats::Codebooks, ..ALWAYS }, false),
            (When { formats: Formats::Expanded, ..ALWAYS }, false),
        ];
        for (i, (when, expected)) in cases.iter().enumerate() {
            assert_eq!(when.holds(&product), *expected, "case {i}: {when:?}");
        }
        let sets = |set: Formats| pumex_quant::all().filter(|f| set.holds(f)).count();
        assert_eq!((sets(Formats::Codebooks), sets(Formats::Tables), sets(Formats::Expanded)), (7, 11, 3));
    }
}
