//! Instance, device and its queues. `Device` is a handle; the last one to go waits and cleans up.

use super::caps::{self, Caps};
use super::debug::{on_message, Messages};
use super::queue::Queue;
use super::select::{choose, Select};
use crate::step::Counters;
use crate::{Error, Result};
use ash::{ext, khr, vk};
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};
use gpu_allocator::AllocationSizes;
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

/// How to open a device.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Which one.
    pub select: Select,
    /// With the validation layer, synchronization validation included.
    pub validation: bool,
    /// Keeps weights out of mapped memory even where memory is unified, so that staging slots are used.
    pub force_staging: bool,
}

/// Pieces of memory that buffers share: of the device, and of the host the first and those that come after many. Memory of the
/// host that the device may read takes 0.4 ms a MiB to make, and others wait for it.
const DEVICE_BLOCK_BYTES: u64 = 256 << 20;
const HOST_BLOCK_BYTES: (u64, u64) = (1 << 20, 64 << 20);
const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Running totals, see [`Counters`].
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub submits: AtomicU64,
    pub host_waits: AtomicU64,
    pub dispatches: AtomicU64,
    pub barriers: AtomicU64,
    pub push_bytes: AtomicU64,
    pub to_device: AtomicU64,
    pub from_device: AtomicU64,
    pub allocations: AtomicU64,
    pub recordings: AtomicU64,
    pub record_ns: AtomicU64,
}

pub(super) fn add(total: &AtomicU64, by: u64) {
    total.fetch_add(by, Ordering::Relaxed);
}

pub(super) struct Inner {
    pub caps: Caps,
    pub force_staging: bool,
    pub raw: ash::Device,
    pub queue: Queue,
    pub allocator: ManuallyDrop<Mutex<Allocator>>,
    pub cache: vk::PipelineCache,
    pub cache_len: AtomicU64,
    pub totals: Totals,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    messages: Box<Messages>,
    pub instance: ash::Instance,
    _entry: ash::Entry,
}

/// A lock whose holder panicked still guards consistent data here: every critical section is one call.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Inner {
    pub fn failed(&self, call: &'static str, result: vk::Result) -> Error {
        failed(call, &self.caps.name, result)
    }
}

fn failed(call: &'static str, device: &str, result: vk::Result) -> Error {
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            Error::OutOfMemory(format!("{call} on {device}"))
        }
        other => Error::Vulkan { call, device: device.to_string(), result: format!("{other:?}") },
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: everything made from the device holds an Arc of this, so nothing else is alive any more.
        unsafe {
            let _ = self.raw.device_wait_idle();
            ManuallyDrop::drop(&mut self.allocator);
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

/// An open device.
#[derive(Clone)]
pub struct Device(pub(super) Arc<Inner>);

/// The system's Vulkan loader, loaded once and kept: drivers do not give back all they take when they are unloaded, so that
/// a process that opens devices again and again would run out of room for them.
fn entry() -> Result<ash::Entry> {
    static ENTRY: OnceLock<std::result::Result<ash::Entry, String>> = OnceLock::new();
    // SAFETY: loading the loader runs its initializers, as every Vulkan program does.
    let loaded = ENTRY.get_or_init(|| unsafe { ash::Entry::load() }.map_err(|e| e.to_string()));
    loaded.clone().map_err(|e| {
        Error::Device(format!("expected a Vulkan loader (libvulkan.so.1), found none: {e}; --device cpu needs none"))
    })
}

/// An instance with the validation layer, its owner's alone; or the plain one, made once and kept like the loader: drivers
/// are unloaded with the last instance.
fn instance(entry: &ash::Entry, validation: bool) -> Result<ash::Instance> {
    static PLAIN: Mutex<Option<ash::Instance>> = Mutex::new(None);
    let mut plain = lock(&PLAIN);
    let kept = match plain.take() {
        Some(kept) => kept,
        None => new_instance(entry, false)?,
    };
    *plain = Some(kept.clone());
    if validation {
        new_instance(entry, true)
    } else {
        Ok(kept)
    }
}

fn new_instance(entry: &ash::Entry, validation: bool) -> Result<ash::Instance> {
    let app = vk::ApplicationInfo::default().application_name(c"pumex").api_version(vk::API_VERSION_1_3);
    let (mut layers, mut extensions) = (vec![], vec![]);
    let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
    let mut info = vk::InstanceCreateInfo::default().application_info(&app);
    if validation {
        layers.push(LAYER.as_ptr());
        extensions.push(ext::debug_utils::NAME.as_ptr());
        extensions.push(ext::validation_features::NAME.as_ptr());
        info = info.push_next(&mut features);
    }
    let info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions);
    // SAFETY: every pointer in `info` lives until the call returns.
    unsafe { entry.create_instance(&info, None) }.map_err(|e| match e {
        vk::Result::ERROR_LAYER_NOT_PRESENT => Error::Device(
            "expected the layer VK_LAYER_KHRONOS_validation, found none (Debian: vulkan-validationlayers)".into(),
        ),
        vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
            Error::Device("expected a Vulkan driver, found none; --device cpu needs none".into())
        }
        other => failed("vkCreateInstance", "the Vulkan loader", other),
    })
}

/// Physical devices with their data; of several drivers for one device the first is kept.
fn devices(entry: &ash::Entry, instance: &ash::Instance) -> Vec<(vk::PhysicalDevice, Caps)> {
    // SAFETY: the instance is alive.
    let all = unsafe { instance.enumerate_physical_devices() }.unwrap_or_default();
    let mut found: Vec<(vk::PhysicalDevice, Caps)> = Vec::new();
    for physical in all {
        let caps = caps::read(entry, instance, physical);
        let known = |c: &Caps| c.uuid == caps.uuid && caps.uuid.bytes().any(|b| b != b'0');
        if !found.iter().any(|(_, c)| known(c)) {
            found.push((physical, caps));
        }
    }
    found
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
        let fail = |call, e| failed(call, &caps.name, e);
        // SAFETY: handles come from this instance; every struct chained lives until its call returns.
        unsafe {
            let family = caps::queue_family(&instance, physical);
            let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
            let mut f11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
            let f12 =
                vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(true).timeline_semaphore(true);
            let features = vk::PhysicalDeviceFeatures::default().shader_int16(true);
            let mut extensions: Vec<_> =
                caps.host_import_alignment.iter().map(|_| ext::external_memory_host::NAME.as_ptr()).collect();
            let matrices = !caps.matrix_wide.is_empty();
            if matrices {
                extensions.push(khr::cooperative_matrix::NAME.as_ptr());
            }
            let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
            let f12 = f12.shader_float16(matrices).vulkan_memory_model(matrices);
            let mut f12 = f12.vulkan_memory_model_device_scope(matrices);
            let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_features(&features);
            let info = info.enabled_extension_names(&extensions);
            let mut f13 = vk::PhysicalDeviceVulkan13Features::default().shader_integer_dot_product(true);
            let mut info = info.push_next(&mut f11).push_next(&mut f12);
            if caps.int_dot8 {
                info = info.push_next(&mut f13);
            }
            if matrices {
                info = info.push_next(&mut matrix);
            }
            let raw = instance.create_device(physical, &info, None).map_err(|e| fail("vkCreateDevice", e))?;
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
            let (cache, cache_len) = super::pipeline::load_cache(&raw, &caps);
            let messages: Box<Messages> = Box::default();
            let messenger = options.validation.then(|| {
                let loader = ext::debug_utils::Instance::new(&entry, &instance);
                let info = vk::DebugUtilsMessengerCreateInfoEXT::default()
                    .message_severity(
                        vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR,
                    )
                    .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
                    .pfn_user_callback(Some(on_message))
                    .user_data((&raw const *messages).cast_mut().cast());
                let messenger = loader.create_debug_utils_messenger(&info, None).unwrap_or_default();
                (loader, messenger)
            });
            Ok(Device(Arc::new(Inner {
                caps,
                force_staging: options.force_staging,
                raw,
                queue,
                allocator: ManuallyDrop::new(Mutex::new(allocator)),
                cache,
                cache_len: AtomicU64::new(cache_len),
                totals: Totals::default(),
                messenger,
                messages,
                instance,
                _entry: entry,
            })))
        }
    }

    /// Whether weights are sent through staging slots instead of being used where the file lies.
    pub fn stages_weights(&self) -> bool {
        !self.0.caps.unified || self.0.force_staging
    }

    /// What the device is and can do.
    pub fn caps(&self) -> &Caps {
        &self.0.caps
    }

    /// Messages of the validation layer so far.
    pub fn validation_messages(&self) -> Vec<String> {
        lock(&self.0.messages).clone()
    }

    /// Totals so far; GPU time is the caller's to add.
    pub fn counters(&self) -> Counters {
        let t = &self.0.totals;
        let get = |a: &AtomicU64| a.load(Ordering::Relaxed);
        Counters {
            submits: get(&t.submits),
            host_waits: get(&t.host_waits),
            barriers: get(&t.barriers),
            dispatches: get(&t.dispatches),
            push_bytes: get(&t.push_bytes),
            bytes_to_device: get(&t.to_device),
            bytes_from_device: get(&t.from_device),
            allocations: get(&t.allocations),
            recordings: get(&t.recordings),
            record_us: get(&t.record_ns) as f64 / 1e3,
            ..Counters::default()
        }
    }

    /// Waits until `value` is reached, and for nothing else.
    ///
    /// # Errors
    /// A lost device, or two minutes without it (an hour on software devices, which compile pipelines meanwhile).
    pub fn wait(&self, value: u64) -> Result<()> {
        self.0.wait(value)
    }

    /// Whether `value` is reached.
    ///
    /// # Errors
    /// A lost device.
    pub fn reached(&self, value: u64) -> Result<bool> {
        self.0.reached(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_driver_refuses_is_told_by_call_device_and_result() {
        let lost = failed("vkQueueSubmit", "Acme One", vk::Result::ERROR_DEVICE_LOST).to_string();
        assert!(["vkQueueSubmit", "Acme One", "ERROR_DEVICE_LOST"].iter().all(|w| lost.contains(w)), "{lost}");
        let full = failed("vkAllocateMemory", "Acme One", vk::Result::ERROR_OUT_OF_DEVICE_MEMORY);
        assert!(matches!(full, Error::OutOfMemory(_)));
    }
}
