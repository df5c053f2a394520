//! A dispatch as plain data: which kernel, with which constants and push constants, over which grid; what it reads and writes.

use crate::policy::{Candidate, KernelQuery};
use pumex_plan::{Placement, Val, Weight};
use pumex_shaders::block::{Block, Value};
use pumex_shaders::push;
use pumex_vk::Caps;
use std::ops::Range;

macro_rules! pushes {
    ($($name:ident),+) => {
        /// Push constants of a kernel, by name and type.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(missing_docs)]
        pub enum Push {
            $($name(push::$name),)+
        }

        $(impl From<push::$name> for Push {
            fn from(block: push::$name) -> Push {
                Push::$name(block)
            }
        })+

        impl Push {
            /// The bytes that the kernel reads.
            pub fn bytes(&self) -> Vec<u8> {
                match self { $(Push::$name(block) => block.bytes(),)+ }
            }

            /// Fields by name, in order.
            pub fn named(&self) -> Vec<(&'static str, Value)> {
                match self { $(Push::$name(block) => block.named(),)+ }
            }
        }
    };
}

pushes!(
    Embed,
    RmsNorm,
    Gemv,
    GemmFew,
    GemmPanels,
    Gemm,
    DecodeWeights,
    GemmRows,
    Pack,
    PackPanels,
    PackRows,
    MoePermute,
    MoeCombine,
    RopeKv,
    AttendFew,
    AttendMany,
    Route,
    Router,
    RouterChoose,
    SquareSums,
    Sample,
    Argmax,
    Megakernel,
    Map,
    Normalize,
    Rotate,
    Positions,
    ById,
    TakeVectors,
    AdapterScales,
    HeadMatMul,
    Choose,
    RoutePairs,
    ExpertsBias,
    Conv,
    Scan,
    Mix,
    Softmax,
    StreamGates,
    Pool,
    ChooseBlocks,
    ChoosePositions,
    AttendBlocks,
    Keep,
    TowerAttend,
    TowerAttendFragments,
    TowerChoose,
    TowerCopy,
    TowerDepthwise,
    TowerGlobalResponse,
    TowerHeadProducts,
    TowerMap,
    TowerNearest,
    TowerNorm,
    TowerPackKeys,
    TowerPermute,
    TowerPick,
    TowerRotate,
    TowerSoftmax,
    TowerUnfold
);

/// A row of the kernel table, and the weight format of its module where it has one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Module {
    /// Kernel.
    pub kernel: &'static str,
    /// Stem of the format.
    pub format: Option<&'static str>,
}

impl Module {
    /// The module of a kernel that has one.
    pub fn of(kernel: &'static str) -> Module {
        Module { kernel, format: None }
    }

    /// The module for a format, of a kernel that has one for each.
    pub fn with(kernel: &'static str, format: &'static str) -> Module {
        Module { kernel, format: Some(format) }
    }
}

/// What a dispatch reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Touched {
    /// What it reads.
    pub reads: Vec<Access>,
    /// What it writes.
    pub writes: Vec<Access>,
}

/// What dispatches read and write, and may have to wait for each other for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A weight, which nothing writes.
    Weight(Weight),
    /// A value of the plan in the scratch arena; the range is of its columns.
    Value(Val),
    /// What a layer keeps between steps.
    State(usize),
    /// The sampled ids.
    Ids,
    /// ActivationQuant packed for cooperative matrices, with their factors; the range is of slots.
    Packed,
    /// Sums of squares and powers that rows packed ahead of a norm come with.
    PackedSums,
    /// Which rows each expert's tiles take.
    MoeTiles,
    /// Rows packed expert by expert.
    MoePacked,
    /// The weights of a matrix as halves.
    Decoded,
    /// Products of all experts of a row, before they are added up.
    MoeProducts,
    /// What workgroups of one dispatch leave for the last of them, and the counters of their arrivals.
    SplitReduction,
    /// Parts of attention that a stage of the megakernel joins.
    AttentionParts,
    /// Messages between workgroups of the megakernel.
    Messages,
    /// Sums of squares of an importance matrix.
    Importance,
}

/// A part of a place, and how many bytes of it are moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Which place.
    pub place: Place,
    /// Columns of a value, slots of packed activations; all of any other place.
    pub range: Range<usize>,
    /// Rows of a value; all of any other place.
    pub rows: Range<usize>,
    /// Bytes.
    pub bytes: u64,
}

impl Access {
    /// All of a place.
    pub fn all(place: Place, bytes: u64) -> Access {
        Access { place, range: 0..usize::MAX, rows: 0..usize::MAX, bytes }
    }

    /// Some of the `all` rows of a value.
    pub fn of_rows(&self, rows: &Range<usize>, all: usize) -> Access {
        let bytes = self.bytes * rows.len() as u64 / all.max(1) as u64;
        Access { rows: rows.clone(), bytes, ..self.clone() }
    }

    /// Whether two accesses may touch the same bytes.
    fn meets(&self, other: &Access, places: &Placement) -> bool {
        match (self.place, other.place) {
            (a, b) if a == b => overlap(&self.range, &other.range) && overlap(&self.rows, &other.rows),
            (Place::Value(a), Place::Value(b)) => places.share_bytes(a, b),
            _ => false,
        }
    }
}

fn overlap(a: &Range<usize>, b: &Range<usize>) -> bool {
    a.start < b.end && b.start < a.end
}

/// One dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// Index of the op that it serves, in the fused plan; of a megakernel's the last one.
    pub op: usize,
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Weight format or formats of the module, if it has any.
    pub format: Option<&'static str>,
    /// Specialization constants by name.
    pub constants: Vec<(&'static str, u32)>,
    /// Push constants.
    pub push: Push,
    /// Workgroups.
    pub grid: [u32; 3],
    /// What it reads.
    pub reads: Vec<Access>,
    /// What it writes.
    pub writes: Vec<Access>,
    /// What its kernel was chosen by, if there was a choice.
    pub query: Option<KernelQuery>,
}

impl Dispatch {
    /// Kernels that could do it, best first, of which the first that is not passed over does; empty where there is no choice.
    pub fn candidates(&self, caps: &Caps) -> Vec<Candidate> {
        self.query.as_ref().map_or(Vec::new(), |query| query.candidates(caps))
    }

    /// Whether it must wait for `earlier`: one writes what the other touches.
    fn waits_for(&self, earlier: &Dispatch, places: &Placement) -> bool {
        let hits = |a: &[Access], b: &[Access]| a.iter().any(|a| b.iter().any(|b| a.meets(b, places)));
        hits(&earlier.writes, &self.reads) || hits(&earlier.writes, &self.writes) || hits(&earlier.reads, &self.writes)
    }
}

/// For each dispatch, whether a barrier must stand before it. The first needs none: a recording starts with one.
pub fn barriers(dispatches: &[Dispatch], places: &Placement) -> Vec<bool> {
    let mut since = 0; // the first dispatch after the last barrier
    let needed = |(i, dispatch): (usize, &Dispatch)| {
        let waits = dispatches[since..i].iter().any(|earlier| dispatch.waits_for(earlier, places));
        since = if waits { i } else { since };
        waits
    };
    dispatches.iter().enumerate().map(needed).collect()
}
