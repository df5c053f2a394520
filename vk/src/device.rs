//! An open device and its queue. `Device` is a handle; the last one to go waits and cleans up.

use super::cache;
use super::caps::read::{queue_family, read};
use super::caps::Caps;
use super::counters::{add, Counters, Totals};
use super::debug::{on_message, Messages};
use super::fault::{InjectedFault, Log};
use super::instance::{call_error, entry, instance};
use super::lock::lock;
use super::matrix2;
use super::queue::Queue;
use super::select::{choose, distinct, Select};
use super::shared_pipelines::SharedPipelines;
use super::software::longest_wait;
use ash::{ext, khr, vk};
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};
use gpu_allocator::AllocationSizes;
use pumex_gguf::{Error, Result};
use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which one.
    pub select: Select,
    /// With the validation layer, synchronization validation included.
    pub validation: bool,
    /// Keeps weights out of mapped memory even where memory is unified, so that staging slots are used.
    pub force_staging: bool,
    /// A number of all modules that pipelines are made of: pipelines that were kept of others are not read.
    pub modules: u64,
    /// Pipelines keep what the driver's compiler made of them, for [`super::Pipeline::executables`].
    pub executables: bool,
    /// Pipelines stay for as long as the device does, and are made once, whoever asks: for processes that load many models on it.
    pub keeps_pipelines: bool,
}

/// Pieces of memory that buffers share: of the device, and of the host the first and those that come after many. Memory of the
/// host that the device may read takes 0.4 ms a MiB to make, and others wait for it.
const DEVICE_BLOCK_BYTES: u64 = 256 << 20;
const HOST_BLOCK_BYTES: (u64, u64) = (1 << 20, 64 << 20);

pub(super) struct Inner {
    pub caps: Caps,
    pub raw: ash::Device,
    pub queue: Queue,
    pub allocator: ManuallyDrop<Mutex<Allocator>>,
    pub cache: vk::PipelineCache,
    pub modules: u64,
    pub executables: Option<khr::pipeline_executable_properties::Device>,
    pub cache_len: AtomicU64,
    pub kept: Option<SharedPipelines>,
    pub totals: Totals,
    pub log: Log,
    pub injected: InjectedFault,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    messages: Box<Messages>,
    pub instance: ash::Instance,
    _entry: ash::Entry,
}

impl Inner {
    pub fn call_error(&self, call: &'static str, result: vk::Result) -> Error {
        call_error(call, &self.caps.name, result)
    }

    /// Fails once the device was waited for in vain.
    ///
    /// # Errors
    /// The device, and that nothing more is asked of it.
    pub fn usable(&self) -> Result<()> {
        if self.queue.may_free() {
            return Ok(());
        }
        let name = &self.caps.name;
        Err(Error::Lost(format!(
            "{name}: expected work to end in time, found it unfinished; nothing more is asked of this device"
        )))
    }

    /// Submits; all that was written before is visible to it.
    pub fn submit(&self, commands: &[vk::CommandBuffer]) -> Result<u64> {
        self.usable()?;
        let submitted = self.queue.submit(&self.raw, commands);
        let value = submitted.map_err(|e| match self.call_error("vkQueueSubmit", e) {
            Error::Lost(what) => Error::Lost(format!("{what}; {}", self.log.report_newest(&self.caps.driver))),
            other => other,
        })?;
        add(&self.totals.submits, 1);
        Ok(value)
    }

    /// Waits until a value is reached, and for nothing else. What it was, is told of a device that is lost or silent.
    pub fn wait(&self, value: u64, most: Duration) -> Result<()> {
        self.usable()?;
        add(&self.totals.host_waits, 1);
        let begun = Instant::now();
        let waited = self.queue.wait(&self.raw, value, most).and_then(|()| self.injected.loss_result(value));
        let report = || self.log.report(value, &self.caps.driver);
        let name = &self.caps.name;
        match waited {
            Ok(()) => self.log.note_wait(begun.elapsed()),
            Err(vk::Result::TIMEOUT) => {
                return Err(Error::Lost(format!(
                    "{name}: expected work to end within {:.1} s, found it unfinished; nothing more is asked of this device; {}",
                    most.as_secs_f64(),
                    report()
                )));
            }
            Err(vk::Result::ERROR_DEVICE_LOST) => {
                return Err(Error::Lost(format!("vkWaitSemaphores on {name}: ERROR_DEVICE_LOST; {}", report())));
            }
            Err(other) => return Err(self.call_error("vkWaitSemaphores", other)),
        }
        Ok(())
    }

    /// The longest wait for what the device was handed, by how long it took before.
    fn longest(&self) -> Duration {
        self.log.limit(longest_wait(self.caps.kind))
    }

    /// Whether a value is reached.
    pub fn is_reached(&self, value: u64) -> Result<bool> {
        let reached = self.queue.is_reached(&self.raw, value);
        reached.map_err(|e| self.call_error("vkGetSemaphoreCounterValue", e))
    }

    /// Waits until a value is reached, or nothing can reach it any more, and says whether what the submission used may be freed.
    pub fn wait_until(&self, value: u64) -> bool {
        if !self.is_reached(value).unwrap_or(true) {
            // A lost device is done, too; one that is silent is not.
            let _ = self.wait(value, self.longest());
        }
        self.queue.may_free()
    }

    /// Waits for all that the device was handed.
    fn wait_for_all(&self) {
        add(&self.totals.device_waits, 1);
        // SAFETY: the device is alive, and nobody else uses its queue: the caller is the last who knows it.
        let _ = unsafe { self.raw.device_wait_idle() };
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.queue.may_free() {
            // The device may still write to any memory it was given, and the layer to the list of messages.
            std::mem::forget(std::mem::take(&mut self.messages));
            return;
        }
        self.wait_for_all();
        // SAFETY: everything made from the device holds an Arc of this, so nothing else is alive any more, and the device has
        // done all it was handed.
        unsafe {
            ManuallyDrop::drop(&mut self.allocator);
            self.kept.iter().for_each(|kept| kept.destroy(&self.raw));
            self.raw.destroy_pipeline_cache(self.cache, None);
            self.queue.free(&self.raw);
            self.raw.destroy_device(None);
            if let Some((loader, messenger)) = self.messenger.take() {
                loader.destroy_debug_utils_messenger(messenger, None);
                self.instance.destroy_instance(None); // with validation it is this device's alone
            }
        }
    }
}

/// An open device, and what choices for it go by.
#[derive(Clone)]
pub struct Device(pub(super) Arc<Inner>, Arc<DeviceChoices>);

/// What choices go by.
struct DeviceChoices {
    caps: Caps,
    force_staging: bool,
}

/// Physical devices with their data; of several drivers for one device the best is kept.
fn devices(entry: &ash::Entry, instance: &ash::Instance) -> Vec<(vk::PhysicalDevice, Caps)> {
    // SAFETY: the instance is alive.
    let all = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
    let found: Vec<Caps> = all.iter().map(|physical| read(entry, instance, *physical)).collect();
    distinct(&found).into_iter().map(|i| (all[i], found[i].clone())).collect()
}

/// All devices.
///
/// # Errors
/// No Vulkan loader, or one that cannot make an instance.
pub fn list() -> Result<Vec<Caps>> {
    let entry = entry()?;
    let instance = instance(&entry, false)?;
    Ok(devices(&entry, &instance).into_iter().map(|(_, c)| c).collect())
}

impl Device {
    /// Opens the chosen device.
    ///
    /// # Errors
    /// No loader, no such device, a missing feature, or a driver that refuses.
    pub fn open(options: &Options) -> Result<Device> {
        let entry = entry()?;
        let instance = instance(&entry, options.validation)?;
        let found = devices(&entry, &instance);
        let list: Vec<Caps> = found.iter().map(|(_, c)| c.clone()).collect();
        let (index, reason) = choose(&list, &options.select)?;
        let (physical, caps) = (found[index].0, list[index].clone());
        tracing::info!("device {index}: {} ({reason})", caps.name);
        caps.require()?;
        let fail = |call, e| call_error(call, &caps.name, e);
        let family = queue_family(&instance, physical);
        let raw =
            create(&instance, physical, (family, options.executables), &caps).map_err(|e| fail("vkCreateDevice", e))?;
        let queue = Queue::new(&raw, family).map_err(|e| fail("vkCreateSemaphore", e))?;
        let allocator = Allocator::new(&AllocatorCreateDesc {
            instance: instance.clone(),
            device: raw.clone(),
            physical_device: physical,
            debug_settings: Default::default(),
            buffer_device_address: true,
            allocation_sizes: AllocationSizes::new(DEVICE_BLOCK_BYTES, HOST_BLOCK_BYTES.0)
                .with_max_host_memblock_size(HOST_BLOCK_BYTES.1),
        })
        .map_err(|e| Error::OutOfMemory(format!("device {}: {e}", caps.name)))?;
        let (cache, cache_len) = cache::load(&raw, &caps, options.modules);
        let messages: Box<Messages> = Box::default();
        let messenger = options.validation.then(|| messenger(&entry, &instance, &messages));
        let executables =
            options.executables.then(|| khr::pipeline_executable_properties::Device::new(&instance, &raw));
        let inner = Inner {
            caps: caps.clone(),
            executables,
            raw,
            queue,
            allocator: ManuallyDrop::new(Mutex::new(allocator)),
            cache,
            modules: options.modules,
            cache_len: AtomicU64::new(cache_len),
            kept: options.keeps_pipelines.then(SharedPipelines::default),
            totals: Totals::default(),
            log: Log::default(),
            injected: InjectedFault::default(),
            messenger,
            messages,
            instance,
            _entry: entry,
        };
        Ok(Device(Arc::new(inner), Arc::new(DeviceChoices { caps, force_staging: options.force_staging })))
    }

    /// This device, for which choices are made by other capabilities: no more than it has, or another of the sizes that it
    /// offers for subgroups.
    pub fn with_caps(&self, caps: Caps) -> Device {
        Device(self.0.clone(), Arc::new(DeviceChoices { caps, force_staging: self.forces_staging() }))
    }

    /// This device, whose weights are, or are not, kept out of mapped memory as by [`Options::force_staging`].
    pub fn staging(&self, force_staging: bool) -> Device {
        Device(self.0.clone(), Arc::new(DeviceChoices { caps: self.caps().clone(), force_staging }))
    }

    pub(super) fn forces_staging(&self) -> bool {
        self.1.force_staging
    }

    /// Whether weights are sent through staging slots instead of being used where the file lies.
    pub fn stages_weights(&self) -> bool {
        !self.0.caps.unified || self.forces_staging()
    }

    /// What the device is and can do, as far as it is used.
    pub fn caps(&self) -> &Caps {
        &self.1.caps
    }

    /// Messages of the validation layer so far.
    pub fn validation_messages(&self) -> Vec<String> {
        lock(&self.0.messages).clone()
    }

    /// Totals so far.
    pub fn counters(&self) -> Counters {
        self.0.totals.counters()
    }

    /// Whether more may be asked of it: not of one that was waited for in vain.
    pub fn is_usable(&self) -> bool {
        self.0.usable().is_ok()
    }

    /// Bytes of all buffers there are now but those of staging slots and imported pages.
    pub fn bytes_in_use(&self) -> u64 {
        self.0.totals.in_use.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// From the submission of that value on, the device is found to be lost: for tests.
    pub fn lose_from(&self, value: u64) {
        self.0.injected.lose_from(value);
    }

    /// After so many more allocations, so many fail as if there was no memory: for tests.
    pub fn refuse(&self, after: u64, times: u64) {
        self.0.injected.refuse(after, times);
    }

    /// Bytes of the last buffer for which there was no memory.
    pub fn last_refused_bytes(&self) -> u64 {
        self.0.log.refused.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Waits until `value` is reached, and for nothing else.
    ///
    /// # Errors
    /// A lost device, or too long without it, as in [`Device::wait_for`]: two minutes (an hour on software devices, which compile
    /// pipelines meanwhile), or less where all that was waited for before took a thousandth of that.
    pub fn wait(&self, value: u64) -> Result<()> {
        self.wait_for(value, self.0.longest())
    }

    /// Waits until `value` is reached, and for nothing else, for a time of the caller's.
    ///
    /// # Errors
    /// A lost device, or `most` without it: then the device may be at it for ever, so all that it was handed stays where it is
    /// until the process ends, and nothing more can be asked of it.
    pub fn wait_for(&self, value: u64, most: Duration) -> Result<()> {
        self.0.wait(value, most)
    }

    /// Whether `value` is reached.
    ///
    /// # Errors
    /// A lost device.
    pub fn is_reached(&self, value: u64) -> Result<bool> {
        self.0.is_reached(value)
    }
}

/// The device with all features that it has and kernels may use, of a queue family; with executables or without.
fn create(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    (family, executables): (u32, bool),
    caps: &Caps,
) -> std::result::Result<ash::Device, vk::Result> {
    // SAFETY: `physical` came from this instance.
    let promoted = unsafe { instance.get_physical_device_properties(physical) }.api_version >= vk::API_VERSION_1_3;
    let bytes = caps.byte_matrix().is_some();
    let matrices = !caps.matrix_n.is_empty() || caps.staged_matrix().is_some() || bytes;
    let extensions = [
        (caps.host_import_alignment.is_some(), ext::external_memory_host::NAME),
        (matrices, khr::cooperative_matrix::NAME),
        (executables, khr::pipeline_executable_properties::NAME),
        (caps.group_matrix(), matrix2::NAME),
        (!promoted && caps.full_subgroups, ext::subgroup_size_control::NAME),
        (!promoted && caps.int_dot8, khr::shader_integer_dot_product::NAME),
    ];
    let extensions: Vec<_> = extensions.iter().filter(|(there, _)| *there).map(|(_, name)| name.as_ptr()).collect();
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
    let features = vk::PhysicalDeviceFeatures::default().shader_int16(caps.storage16);
    let mut f11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(caps.storage16);
    let mut f12 = vk::PhysicalDeviceVulkan12Features::default()
        .buffer_device_address(true)
        .timeline_semaphore(true)
        .shader_float16(caps.fp16)
        .shader_int8(bytes)
        .vulkan_memory_model(matrices)
        .vulkan_memory_model_device_scope(matrices);
    let mut subgroups = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
        .subgroup_size_control(caps.subgroup_size_control)
        .compute_full_subgroups(caps.full_subgroups);
    let mut dots = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default().shader_integer_dot_product(true);
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
    let mut matrix2 = matrix2::Features::all();
    // Modules that use them say the size of workgroups in the way of SPIR-V 1.6.
    let mut sizes_by_id = vk::PhysicalDeviceMaintenance4Features::default().maintenance4(true);
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_features(&features);
    let mut info = info.enabled_extension_names(&extensions).push_next(&mut f11).push_next(&mut f12);
    if caps.full_subgroups {
        info = info.push_next(&mut subgroups);
    }
    if caps.int_dot8 {
        info = info.push_next(&mut dots);
    }
    if matrices {
        info = info.push_next(&mut matrix);
    }
    if caps.group_matrix() {
        info = info.push_next(&mut matrix2).push_next(&mut sizes_by_id);
    }
    let mut told = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
    if executables {
        info = info.push_next(&mut told);
    }
    // SAFETY: `physical` came from this instance; every chained struct lives until the call returns.
    unsafe { instance.create_device(physical, &info, None) }
}

/// Has the validation layer write to `messages`, which outlive the messenger.
fn messenger(
    entry: &ash::Entry,
    instance: &ash::Instance,
    messages: &Messages,
) -> (ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT) {
    let loader = ext::debug_utils::Instance::new(entry, instance);
    let severity = vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR;
    let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(severity)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(on_message))
        .user_data((&raw const *messages).cast_mut().cast());
    // SAFETY: the instance has the extension; the callback takes a list of messages, and this one is kept in its box.
    let messenger = unsafe { loader.create_debug_utils_messenger(&info, None) }.unwrap_or_default();
    (loader, messenger)
}
