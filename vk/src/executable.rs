//! What a driver's compiler made of a pipeline, as it tells by VK_KHR_pipeline_executable_properties: figures, such as
//! registers and spills, and listings.

use super::pipeline::Pipeline;
use ash::{khr, vk};
use pumex_gguf::{Error, Result};
use std::ffi::c_char;

/// One of the programs that a pipeline became; a compute pipeline usually has one.
#[derive(Clone, Debug, Default)]
pub struct Executable {
    /// The driver's name of it.
    pub name: String,
    /// Threads of its subgroups.
    pub subgroup_size: u32,
    /// Figures by the driver's names.
    pub statistics: Vec<(String, f64)>,
    /// Listings by the driver's names: of the shader, of its intermediate forms, of machine code.
    pub texts: Vec<(String, String)>,
}

impl Executable {
    /// A figure by its name.
    pub fn statistic(&self, name: &str) -> Option<f64> {
        self.statistics.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

/// Text of a field of fixed length, up to its end or a null.
fn text(raw: &[c_char]) -> String {
    let bytes: Vec<u8> = raw.iter().take_while(|c| **c != 0).map(|c| *c as u8).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn value(s: &vk::PipelineExecutableStatisticKHR<'_>) -> f64 {
    // SAFETY: the format says which field the driver has written.
    unsafe {
        match s.format {
            vk::PipelineExecutableStatisticFormatKHR::BOOL32 => f64::from(s.value.b32),
            vk::PipelineExecutableStatisticFormatKHR::INT64 => s.value.i64 as f64,
            vk::PipelineExecutableStatisticFormatKHR::UINT64 => s.value.u64 as f64,
            _ => s.value.f64,
        }
    }
}

/// Listings of one executable: their sizes first, then they themselves, into memory of ours.
fn texts(
    loader: &khr::pipeline_executable_properties::Device,
    info: &vk::PipelineExecutableInfoKHR<'_>,
) -> std::result::Result<Vec<(String, String)>, vk::Result> {
    // SAFETY: `info` names a pipeline that its handle keeps alive.
    let mut all = unsafe { loader.get_pipeline_executable_internal_representations(info) }?;
    let mut held: Vec<Vec<u8>> = all.iter().map(|one| vec![0; one.data_size]).collect();
    for (one, held) in all.iter_mut().zip(&mut held) {
        one.p_data = held.as_mut_ptr().cast();
    }
    let mut count = all.len() as u32;
    let call = loader.fp().get_pipeline_executable_internal_representations_khr;
    // SAFETY: `all` has room for `count` of them, each of which points to as many bytes as it says.
    unsafe { call(loader.device(), info, &mut count, all.as_mut_ptr()) }.result()?;
    let listing = |(one, held): (&vk::PipelineExecutableInternalRepresentationKHR<'_>, &Vec<u8>)| {
        let bytes: Vec<u8> = held.iter().copied().take_while(|b| *b != 0).collect();
        (text(&one.name), String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(all.iter().zip(&held).take(count as usize).filter(|(one, _)| one.is_text == vk::TRUE).map(listing).collect())
}

impl Pipeline {
    /// What the driver's compiler made of it.
    ///
    /// # Errors
    /// A device that was not opened with [`super::Options::executables`], a driver that refuses.
    pub fn executables(&self) -> Result<Vec<Executable>> {
        let device = self.device();
        let Some(loader) = &device.executables else {
            let feature = "pipelineExecutableInfo, asked for when it was opened".into();
            return Err(Error::MissingFeature { device: device.caps.name.clone(), feature });
        };
        let fail = |call| move |e| device.call_error(call, e);
        let (pipeline, _) = self.raw();
        let of = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: the handle keeps the pipeline alive.
        let found = unsafe { loader.get_pipeline_executable_properties(&of) };
        let found = found.map_err(fail("vkGetPipelineExecutablePropertiesKHR"))?;
        let told = |(i, one): (usize, &vk::PipelineExecutablePropertiesKHR<'_>)| {
            let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline).executable_index(i as u32);
            // SAFETY: the handle keeps the pipeline alive, and it has such an executable.
            let statistics = unsafe { loader.get_pipeline_executable_statistics(&info) };
            let statistics = statistics.map_err(fail("vkGetPipelineExecutableStatisticsKHR"))?;
            let texts = texts(loader, &info).map_err(fail("vkGetPipelineExecutableInternalRepresentationsKHR"))?;
            let statistics = statistics.iter().map(|s| (text(&s.name), value(s))).collect();
            Ok(Executable { name: text(&one.name), subgroup_size: one.subgroup_size, statistics, texts })
        };
        found.iter().enumerate().map(told).collect()
    }
}
