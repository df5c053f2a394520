//! Profiles of known devices, for choices without one: tests and dry runs. They stand in `lower/devices`, each with a
//! `source`: captured from the device, or put together from public facts, of which only what choices depend on is meant to be
//! true.

use super::as_used;
use pumex_gguf::{Error, Result};
use pumex_vk::Caps;
use serde_json::Value;
use std::path::Path;

/// A name and the text of its file.
macro_rules! profiles {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../devices/", $name, ".json")))),*]
    };
}

/// All profiles, by short names.
const PROFILES: &[(&str, &str)] = profiles![
    "h200",
    "lavapipe",
    "geforce_gtx_1080",
    "geforce_rtx_2080",
    "geforce_rtx_3090",
    "geforce_rtx_5090",
    "geforce_rtx_2060_nvk",
    "radeon_rx_580",
    "radeon_rx_5700_xt",
    "radeon_rx_6800_xt",
    "radeon_rx_7900_xtx",
    "radeon_rx_9070_xt",
    "radeon_8060s",
    "instinct_mi100",
    "arc_a770",
    "arc_b580",
    "iris_xe",
    "uhd_630",
    "apple_m2",
    "adreno_740",
    "mali_g715",
    "radeon_pro_5700_xt",
    "unknown",
    "floor",
];

/// What `pumex devices --json` prints of a device beside its capabilities, and where a profile comes from.
const BESIDE: [&str; 7] = ["source", "class", "default", "bandwidth", "read", "copy", "workarounds"];

/// A device from what `pumex devices --json` prints: an object, or a list of which the default device counts, or else the first.
///
/// # Errors
/// Text that is no such thing; the field that is missing or unknown.
pub fn parse(text: &str, file: &Path) -> Result<Caps> {
    let bad = |what: String| Error::file(file, "bad_profile", what);
    let expected = "expected what `pumex devices --json` prints";
    let mut value: Value = serde_json::from_str(text).map_err(|e| bad(format!("{expected}, found no JSON: {e}")))?;
    if let Value::Array(list) = &mut value {
        let default = list.iter().position(|device| device["default"] == true).unwrap_or(0);
        if list.is_empty() {
            return Err(bad(format!("{expected}, found no device in it")));
        }
        value = list.swap_remove(default);
    }
    let Value::Object(fields) = &mut value else {
        return Err(bad(format!("{expected}, found {value}")));
    };
    BESIDE.iter().for_each(|name| drop(fields.remove(*name)));
    serde_json::from_value(value).map_err(|e| bad(format!("{expected}, found {e}")))
}

/// Short names of all.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROFILES.iter().map(|(name, _)| *name)
}

/// The device of a short name, as kernels would use it.
pub fn find(name: &str) -> Option<Caps> {
    let (_, text) = PROFILES.iter().find(|(known, _)| *known == name)?;
    parse(text, Path::new(name)).ok().map(as_used)
}

/// All of these, by short names.
///
/// # Panics
/// If a file of this program is not as it should be, which tests exclude.
pub fn all() -> Vec<(&'static str, Caps)> {
    names().map(|name| (name, known(name))).collect()
}

fn known(name: &str) -> Caps {
    find(name).unwrap_or_else(|| panic!("the profile of {name} is a profile"))
}

/// NVIDIA H200, driver 580: the device that tiles were measured on.
pub fn h200() -> Caps {
    known("h200")
}

/// The software device of Mesa, on a CPU with vectors of 256 bits.
pub fn lavapipe() -> Caps {
    known("lavapipe")
}

#[cfg(test)]
mod tests {
    use super::super::class::DeviceClass;
    use super::*;
    use pumex_vk::usable_columns;

    /// Fields that earlier versions did not write.
    const LATER: [&str; 10] = [
        "driver_id",
        "driver_version",
        "pci",
        "waves",
        "max_buffer_bytes",
        "max_storage_range",
        "float8",
        "matrix_shapes",
        "matrix2",
        "disabled",
    ];

    fn raw() -> impl Iterator<Item = (&'static str, Value, Caps)> {
        PROFILES
            .iter()
            .map(|(name, text)| (*name, serde_json::from_str(text).unwrap(), parse(text, Path::new(name)).unwrap()))
    }

    #[test]
    fn profiles_say_where_they_come_from_and_agree_with_themselves() {
        for (name, value, caps) in raw() {
            let source = value["source"].as_str().unwrap_or_else(|| panic!("{name}: no source"));
            let kinds = ["captured", "public facts", "made up"];
            assert!(kinds.iter().any(|kind| source.starts_with(kind)), "{name}: {source}");
            assert_eq!(caps.missing(), None, "{name}");
            let columns = if caps.subgroup_size == 32 { usable_columns(&caps.matrix_shapes) } else { Vec::new() };
            assert_eq!(caps.matrix_n, columns, "{name}");
            assert_eq!(caps.cooperative_matrix, !caps.matrix_shapes.is_empty(), "{name}");
            assert_eq!(caps.cooperative_matrix2, caps.matrix2.is_some(), "{name}");
            assert!(caps.memory_types.iter().all(|t| t.heap < caps.heaps.len()), "{name}");
            assert!((caps.subgroup_min..=caps.subgroup_max).contains(&caps.subgroup_size), "{name}");
            let again: Caps = serde_json::from_str(&serde_json::to_string(&caps).unwrap()).unwrap();
            assert_eq!(again, caps, "{name}");
        }
        assert!(raw().count() >= 18);
    }

    #[test]
    fn profiles_of_earlier_versions_load_and_what_is_wrong_is_named() {
        let (_, value, caps) = raw().find(|(name, ..)| *name == "geforce_rtx_3090").unwrap();
        let mut old = value.clone();
        LATER.iter().for_each(|name| drop(old.as_object_mut().unwrap().remove(*name)));
        let read = |value: &Value| parse(&value.to_string(), Path::new("old.json"));
        let found = read(&old).unwrap();
        assert_eq!((found.waves, found.matrix_shapes.len(), found.disabled.len()), (None, 0, 0));
        assert_eq!((found.matrix_n.clone(), found.cores), (caps.matrix_n, caps.cores));
        // The default one of a list, whatever else was measured.
        let list = serde_json::json!([old, { "default": true }]);
        let error = read(&list).unwrap_err().to_string();
        assert!(error.contains("old.json") && error.contains("missing field"), "{error}");
        let mut other = value.clone();
        other["subgroup_sise"] = 32.into();
        assert!(read(&other).unwrap_err().to_string().contains("subgroup_sise"));
        old.as_object_mut().unwrap().remove("subgroup_size");
        assert!(read(&old).unwrap_err().to_string().contains("subgroup_size"));
        for text in ["", "[]", "7", "{"] {
            assert!(parse(text, Path::new("old.json")).unwrap_err().to_string().contains("pumex devices --json"));
        }
    }

    #[test]
    fn every_class_has_a_profile() {
        let found: Vec<DeviceClass> = all().iter().map(|(_, caps)| DeviceClass::of(caps)).collect();
        for class in DeviceClass::ALL {
            assert!(found.contains(&class), "{class:?}");
        }
    }
}
