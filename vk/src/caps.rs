//! Everything asked of a device, read once into plain data: what kernels and tiles are chosen by, and no more than that. It
//! can be written to a file and read back, so that choices can be looked at without the device.

mod matrix;
pub(super) mod read;
mod tuned;

pub use matrix::{usable_columns, ElementType, FlexibleShape, Matrix2, MatrixScope, MatrixShape};
use pumex_gguf::{Error, Result};
use serde::{Deserialize, Serialize};
pub use tuned::{Tuned, TunedProduct, TunedShape};

/// What sort of device it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum DeviceKind {
    Discrete,
    Integrated,
    Virtual,
    Cpu,
    Other,
}

/// A memory heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heap {
    /// Bytes in all.
    pub len_bytes: u64,
    /// Bytes this process may use now; the size where the driver does not say.
    pub budget_bytes: u64,
    /// Near the device.
    pub device_local: bool,
}

/// A memory type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct MemoryType {
    pub heap: usize,
    pub device_local: bool,
    pub host_visible: bool,
    pub host_coherent: bool,
    pub host_cached: bool,
}

/// Dot products of four packed 8-bit integers that the device has instructions for; the others it computes by many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FastDots {
    /// Signed with signed.
    pub signed: bool,
    /// Unsigned with unsigned.
    pub unsigned: bool,
    /// Signed with unsigned.
    pub mixed: bool,
}

/// A kernel that is not used on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disabled {
    /// Row of the kernel table.
    pub kernel: String,
    /// Why, in a few words.
    pub why: String,
}

/// A module whose pipelines have subgroups of a size of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelSubgroup {
    /// A row of the kernel table, or one of its modules, `KERNEL.FORMAT`.
    pub module: String,
    /// Threads of a subgroup.
    pub threads: u32,
}

/// A device as plain data. What files of earlier versions do not have is taken as not told.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs)]
pub struct Caps {
    pub name: String,
    pub driver: String,
    /// Vulkan's name of the driver, such as `MESA_LLVMPIPE`.
    #[serde(default)]
    pub driver_id: String,
    /// The driver's version, in its vendor's encoding.
    #[serde(default)]
    pub driver_version: u32,
    pub api_version: String,
    pub vendor_id: u32,
    pub device_id: u32,
    pub uuid: String,
    pub driver_uuid: String,
    /// Domain, bus, device and function on the PCI bus, where the driver says; drivers of one card agree on it.
    #[serde(default)]
    pub pci: Option<String>,
    pub kind: DeviceKind,
    /// Host and device share one memory.
    pub unified: bool,
    /// Threads of a subgroup in pipelines that use subgroups.
    pub subgroup_size: u32,
    /// Modules that have others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subgroup_sizes: Vec<KernelSubgroup>,
    /// Least and most threads that a pipeline may ask for; both are `subgroup_size` where it cannot ask.
    pub subgroup_min: u32,
    pub subgroup_max: u32,
    /// Compute pipelines may ask for a size (subgroupSizeControl, requiredSubgroupSizeStages).
    pub subgroup_size_control: bool,
    /// Compute pipelines may ask for subgroups without missing threads (computeFullSubgroups). Without it subgroups are not used:
    /// a driver may run 16 threads where it reports 32, and kernels that count in subgroups would leave out the others.
    pub full_subgroups: bool,
    /// Operations over subgroups are not used: a workgroup takes the place of a subgroup, and shared memory that of the operations.
    #[serde(default)]
    pub emulated_subgroups: bool,
    /// Most subgroups of a workgroup where a size is asked for.
    pub max_workgroup_subgroups: u32,
    pub max_workgroup_invocations: u32,
    /// Most workgroups of a dispatch in x, y and z.
    pub max_groups: [u32; 3],
    /// Multiprocessors, or compute units, where the driver says.
    pub cores: Option<u32>,
    /// Largest workgroups that were seen to run at once, where the driver does not tell `cores` and it was measured: as many as there
    /// are cores, or some times as many.
    #[serde(default)]
    pub measured_cores: Option<u32>,
    /// Subgroups that a multiprocessor holds at a time, or a SIMD unit of a compute unit, where the driver says.
    #[serde(default)]
    pub waves: Option<u32>,
    pub max_shared_bytes: u32,
    pub max_push_bytes: u32,
    pub max_allocation_bytes: u64,
    /// Bytes of the largest buffer, where the driver says.
    #[serde(default)]
    pub max_buffer_bytes: Option<u64>,
    /// Bytes of a buffer that a descriptor reaches; kernels know buffers by address.
    #[serde(default)]
    pub max_storage_range: Option<u32>,
    pub timestamp_period_ns: f32,
    pub heaps: Vec<Heap>,
    pub memory_types: Vec<MemoryType>,
    /// Free bytes of the largest device-local heap.
    pub memory_budget_bytes: u64,
    /// Numbers of 16 bits can be loaded (storageBuffer16BitAccess, shaderInt16); else words are, of which half is taken.
    pub storage16: bool,
    pub buffer_address: bool,
    pub timeline: bool,
    pub subgroup_arithmetic: bool,
    pub subgroup_ballot: bool,
    /// Values of other threads of a subgroup.
    pub subgroup_shuffle: bool,
    pub fp16: bool,
    pub int8: bool,
    /// Shaders may have floats of 8 bits.
    #[serde(default)]
    pub float8: bool,
    /// Dot products of packed bytes can be asked for, fast or not.
    pub int_dot8: bool,
    pub fast_dots: FastDots,
    /// Host pages can become device memory; addresses and sizes are multiples of this.
    pub host_import_alignment: Option<u64>,
    pub cooperative_matrix: bool,
    pub cooperative_matrix2: bool,
    /// Products of cooperative matrices, of all shapes and types.
    #[serde(default)]
    pub matrix_shapes: Vec<MatrixShape>,
    /// What VK_NV_cooperative_matrix2 adds, if the device has it.
    #[serde(default)]
    pub matrix2: Option<Matrix2>,
    /// Shaders may ask that subnormal halves are kept (shaderDenormPreserveFloat16).
    pub small_halves: bool,
    /// Columns that a product of cooperative matrices may have: 16 x 16 halves by 16 x these, sums in floats.
    pub matrix_n: Vec<u32>,
    /// Kernels that are not used: the driver is known to get them wrong, or was found to.
    #[serde(default)]
    pub disabled: Vec<Disabled>,
    /// Shapes of products that were measured here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned: Vec<Tuned>,
}

impl Caps {
    /// Most bytes of a buffer with memory of its own.
    pub fn largest_buffer(&self) -> u64 {
        self.max_buffer_bytes.map_or(self.max_allocation_bytes, |most| most.min(self.max_allocation_bytes))
    }

    /// Why a kernel is not used, if it is not.
    pub fn disabled_reason(&self, kernel: &str) -> Option<&str> {
        self.disabled.iter().find(|d| d.kernel == kernel).map(|d| d.why.as_str())
    }

    /// Rows, columns and inputs of products of cooperative matrices that come from shared memory: of halves, with sums in floats.
    pub fn staged_matrix(&self) -> Option<(u32, u32, u32)> {
        let shapes = self.matrix_shapes.iter().filter_map(matrix::MatrixShape::staged_shape);
        shapes.max().filter(|_| self.cooperative_matrix && self.fp16)
    }

    /// Rows, columns and inputs of cooperative matrices of signed bytes, with sums in 32 bits. Of those with as many rows and columns the
    /// shorter is taken: scales are for as
    /// few as 16 inputs.
    pub fn byte_matrix(&self) -> Option<(u32, u32, u32)> {
        let shapes = self.matrix_shapes.iter().filter_map(matrix::MatrixShape::bytes);
        let best = shapes.max_by_key(|(m, n, k)| (*m, *n, std::cmp::Reverse(*k)));
        best.filter(|_| self.cooperative_matrix && self.int8)
    }

    /// Threads of a subgroup of a kernel or one of its modules, if it has a size of its own.
    pub fn own_subgroup(&self, module: &str) -> Option<u32> {
        let kernel = module.split('.').next();
        let own = |s: &&KernelSubgroup| s.module == module || Some(s.module.as_str()) == kernel;
        self.subgroup_sizes.iter().find(own).map(|s| s.threads)
    }

    /// Threads of its subgroups.
    pub fn subgroup_of(&self, module: &str) -> u32 {
        self.own_subgroup(module).unwrap_or(self.subgroup_size)
    }

    /// Threads of its subgroups in a workgroup of `threads`.
    pub fn lanes(&self, module: &str, threads: u32) -> u32 {
        if self.emulated_subgroups {
            threads
        } else {
            self.subgroup_of(module)
        }
    }

    /// Whether a workgroup may hold cooperative matrices of halves with sums in floats, of any size, load them by the description of a
    /// tensor, and do something to each element.
    pub fn group_matrix(&self) -> bool {
        self.cooperative_matrix && self.fp16 && self.matrix2.as_ref().is_some_and(Matrix2::takes_halves)
    }

    /// Whether it has an instruction for dot products of signed bytes, but none of unsigned with signed ones.
    pub fn lacks_mixed_dots(&self) -> bool {
        self.fast_dots.signed && !self.fast_dots.mixed
    }

    /// The first feature that every kernel needs and this device lacks, in the specification's words.
    pub fn missing(&self) -> Option<&'static str> {
        // What stands for operations over subgroups has its part already.
        let shared = if self.emulated_subgroups { 28 << 10 } else { 32 << 10 };
        let needs = [
            (self.buffer_address, "bufferDeviceAddress (Vulkan 1.2)"),
            (self.timeline, "timelineSemaphore (Vulkan 1.2)"),
            (self.max_shared_bytes >= shared, "32 KiB of shared memory"),
            (self.max_workgroup_invocations >= 128, "workgroups of 128"),
        ];
        needs.iter().find(|(there, _)| !there).map(|(_, feature)| *feature)
    }

    /// Fails if anything is [`Caps::missing`].
    ///
    /// # Errors
    /// The feature and the device.
    pub(super) fn require(&self) -> Result<()> {
        match self.missing() {
            Some(feature) => Err(Error::MissingFeature { device: self.name.clone(), feature: feature.into() }),
            None => Ok(()),
        }
    }
}

impl Caps {
    /// A made-up device with so many bytes of its own memory free.
    pub fn with_memory(memory_budget_bytes: u64) -> Caps {
        Caps { memory_budget_bytes, ..Caps::synthetic("made up", DeviceKind::Discrete) }
    }

    /// A made-up device: subgroups of 32, 48 KiB of shared memory, the least limits, and every feature but matrices.
    pub fn synthetic(name: &str, kind: DeviceKind) -> Caps {
        Caps {
            name: name.into(),
            driver: String::new(),
            driver_id: String::new(),
            driver_version: 0,
            api_version: String::new(),
            vendor_id: 0,
            device_id: 0,
            uuid: format!("{:0>32x}", name.len()),
            driver_uuid: String::new(),
            pci: None,
            kind,
            unified: false,
            subgroup_size: 32,
            subgroup_sizes: Vec::new(),
            subgroup_min: 32,
            subgroup_max: 32,
            subgroup_size_control: true,
            full_subgroups: true,
            emulated_subgroups: false,
            max_workgroup_subgroups: 32,
            max_workgroup_invocations: 1024,
            max_groups: [0x7fff_ffff, 0xffff, 0xffff],
            cores: None,
            measured_cores: None,
            waves: None,
            max_shared_bytes: 48 << 10,
            max_push_bytes: 128,
            max_allocation_bytes: 4 << 30,
            max_buffer_bytes: None,
            max_storage_range: None,
            timestamp_period_ns: 1.0,
            heaps: Vec::new(),
            memory_types: Vec::new(),
            memory_budget_bytes: 0,
            storage16: true,
            buffer_address: true,
            timeline: true,
            subgroup_arithmetic: true,
            subgroup_ballot: true,
            subgroup_shuffle: true,
            fp16: true,
            int8: true,
            float8: false,
            int_dot8: true,
            fast_dots: FastDots { signed: true, unsigned: true, mixed: true },
            host_import_alignment: None,
            cooperative_matrix: false,
            cooperative_matrix2: false,
            matrix_shapes: Vec::new(),
            matrix2: None,
            small_halves: false,
            matrix_n: Vec::new(),
            disabled: Vec::new(),
            tuned: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_needed_feature_is_refused_by_the_feature_s_name() {
        let whole = Caps::synthetic("Acme One", DeviceKind::Discrete);
        assert!(whole.require().is_ok());
        type Lack = fn(&mut Caps);
        let lacks: [(Lack, &str); 4] = [
            (|c| c.buffer_address = false, "bufferDeviceAddress"),
            (|c| c.timeline = false, "timelineSemaphore"),
            (|c| c.max_shared_bytes = 16 << 10, "32 KiB of shared memory"),
            (|c| c.max_workgroup_invocations = 64, "workgroups of 128"),
        ];
        for (lack, feature) in lacks {
            let mut caps = whole.clone();
            lack(&mut caps);
            let error = caps.require().unwrap_err().to_string();
            assert!(error.contains(feature) && error.contains("Acme One"), "{error}");
        }
    }

    #[test]
    fn a_device_can_be_written_down_and_read_back() {
        let mut caps = Caps::synthetic("Acme One", DeviceKind::Integrated);
        caps.heaps.push(Heap { len_bytes: 8 << 30, budget_bytes: 7 << 30, device_local: true });
        caps.fast_dots.mixed = false;
        let text = serde_json::to_string(&caps).unwrap();
        assert_eq!(serde_json::from_str::<Caps>(&text).unwrap(), caps);
    }
}
