//! Cooperative matrices as a device tells of them: shapes, types, and who holds one.

use ash::vk;
use serde::{Deserialize, Serialize};

/// Type of a matrix's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ElementType {
    F16,
    F32,
    F64,
    Bf16,
    E4m3,
    E5m2,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
    /// One that this program has no name for.
    Other,
}

impl ElementType {
    /// By Vulkan's number.
    pub(super) fn of(raw: vk::ComponentTypeKHR) -> ElementType {
        use ElementType::*;
        let known = [F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64];
        match raw.as_raw() {
            1_000_141_000 => Bf16,
            1_000_491_002 => E4m3,
            1_000_491_003 => E5m2,
            i => usize::try_from(i).ok().and_then(|i| known.get(i)).copied().unwrap_or(Other),
        }
    }
}

/// Who holds a matrix together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum MatrixScope {
    Subgroup,
    Workgroup,
    /// Any that kernels have no use for.
    Other,
}

impl MatrixScope {
    pub(super) fn of(raw: vk::ScopeKHR) -> MatrixScope {
        match raw {
            vk::ScopeKHR::SUBGROUP => MatrixScope::Subgroup,
            vk::ScopeKHR::WORKGROUP => MatrixScope::Workgroup,
            _ => MatrixScope::Other,
        }
    }
}

/// A product of matrices that a device does at once: `m` x `k` of `a` by `k` x `n` of `b`, added to `m` x `n` of `c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MatrixShape {
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub a: ElementType,
    pub b: ElementType,
    pub c: ElementType,
    pub result: ElementType,
    pub scope: MatrixScope,
}

/// Products of matrices of any size that is a multiple of `m`, `n` and `k` (VK_NV_cooperative_matrix2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlexibleShape {
    /// What sizes are multiples of, with types and scope.
    #[serde(flatten)]
    pub shape: MatrixShape,
    /// Threads of a workgroup that does it.
    pub threads: u32,
}

/// What VK_NV_cooperative_matrix2 adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Matrix2 {
    /// Workgroups hold matrices together.
    pub workgroup_scope: bool,
    /// Sizes are free, but for granularity.
    pub flexible_dimensions: bool,
    /// Reductions over rows and columns.
    pub reductions: bool,
    /// Conversions between uses and types.
    pub conversions: bool,
    /// A function for each element.
    pub per_element: bool,
    /// Loads through a description of a tensor.
    pub tensor_addressing: bool,
    /// Loads that decode blocks.
    pub block_loads: bool,
    /// Most threads of a workgroup that holds matrices together.
    pub max_threads: u32,
    /// Largest side of a matrix.
    pub max_dimension: u32,
    /// Bytes of shared memory that such a workgroup gives up.
    pub reserved_shared_bytes: u32,
    /// Granularities by type.
    pub shapes: Vec<FlexibleShape>,
}

impl Matrix2 {
    /// Whether all is there that kernels need: workgroups of 256 or 128 threads that hold matrices of halves, sums in floats.
    pub(super) fn takes_halves(&self) -> bool {
        use ElementType::{F16, F32};
        let parts = [self.workgroup_scope, self.flexible_dimensions, self.reductions, self.conversions];
        let loads = [self.per_element, self.tensor_addressing, self.block_loads];
        let shape = |threads: u32| {
            self.shapes.iter().any(|f| {
                let types = (f.shape.a, f.shape.b, f.shape.c, f.shape.result) == (F16, F16, F32, F32);
                let fits = f.shape.m <= 32 && f.shape.n <= 32 && f.shape.k <= 16;
                types && fits && f.threads == threads && f.shape.scope == MatrixScope::Workgroup
            })
        };
        let sizes = shape(128) && shape(256) && self.max_dimension >= 256;
        parts.iter().chain(&loads).all(|there| *there) && sizes
    }
}

impl MatrixShape {
    /// Its rows, columns and inputs, if kernels can fill such matrices from shared memory: those that subgroups of any size hold.
    /// Others, of 8 columns, want subgroups of 8.
    pub(super) fn staged_shape(&self) -> Option<(u32, u32, u32)> {
        use ElementType::{F16, F32};
        let fits = matches!((self.m, self.n, self.k), (8 | 16, 16, 16) | (8, 8, 8))
            && self.scope == MatrixScope::Subgroup
            && (self.a, self.b, self.c, self.result) == (F16, F16, F32, F32);
        fits.then_some((self.m, self.n, self.k))
    }

    /// Its rows, columns and inputs, if kernels can fill such matrices with signed bytes, with sums in 32 bits.
    pub(super) fn bytes(&self) -> Option<(u32, u32, u32)> {
        use ElementType::{S32, S8};
        let fits = matches!((self.m, self.n, self.k), (8 | 16, 16, 16 | 32) | (16, 8, 32) | (8, 8, 8))
            && self.scope == MatrixScope::Subgroup
            && (self.a, self.b, self.c, self.result) == (S8, S8, S32, S32);
        fits.then_some((self.m, self.n, self.k))
    }

    /// Columns, if kernels can use matrices of that shape: 16 x 16 halves by 16 x 8 or 16, sums in floats.
    fn usable_columns(&self) -> Option<u32> {
        use ElementType::{F16, F32};
        let fits = (self.m, self.k, self.scope) == (16, 16, MatrixScope::Subgroup)
            && (self.a, self.b, self.c, self.result) == (F16, F16, F32, F32)
            && matches!(self.n, 8 | 16);
        fits.then_some(self.n)
    }
}

/// Columns of matrices that kernels can use, fewest first.
pub fn usable_columns(shapes: &[MatrixShape]) -> Vec<u32> {
    let mut columns: Vec<u32> = shapes.iter().filter_map(MatrixShape::usable_columns).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_use_halves_of_sixteen_rows_and_nothing_else() {
        use ElementType::{F16, F32, S32, S8};
        let (a, b, c, result, scope) = (F16, F16, F32, F32, MatrixScope::Subgroup);
        let usual = MatrixShape { m: 16, n: 16, k: 16, a, b, c, result, scope };
        let all = [
            usual,
            MatrixShape { n: 8, ..usual },
            MatrixShape { n: 8, k: 8, ..usual },
            MatrixShape { m: 8, ..usual },
            MatrixShape { n: 32, ..usual },
            MatrixShape { c: F16, result: F16, ..usual },
            MatrixShape { a: S8, b: S8, c: S32, result: S32, k: 32, ..usual },
            MatrixShape { scope: MatrixScope::Workgroup, ..usual },
            usual,
        ];
        assert_eq!(usable_columns(&all), [8, 16]);
        assert_eq!(usable_columns(&all[2..8]), Vec::<u32>::new());
    }

    #[test]
    fn types_are_known_by_vulkan_s_numbers() {
        let of = |raw| ElementType::of(vk::ComponentTypeKHR::from_raw(raw));
        assert_eq!(
            (of(0), of(1), of(3), of(5), of(10)),
            (ElementType::F16, ElementType::F32, ElementType::S8, ElementType::S32, ElementType::U64)
        );
        assert_eq!((of(1_000_141_000), of(-1), of(11)), (ElementType::Bf16, ElementType::Other, ElementType::Other));
    }
}
