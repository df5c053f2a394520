//! Tables tested as tables: formats, kernels and compiled modules agree.

use pumex_quant::FORMATS;
use pumex_shaders::kernels::Formats;
use pumex_shaders::{module, KERNELS, MODULES};

#[test]
fn every_kernel_has_a_module_for_every_format_and_no_module_is_left_over() {
    let mut names = Vec::new();
    for k in KERNELS {
        let fits = FORMATS.iter().filter(|f| k.formats.includes(f.block_len));
        match k.formats {
            Formats::None => names.push(k.name.to_string()),
            _ => names.extend(fits.map(|f| format!("{}.{}", k.name, f.stem))),
        }
    }
    for name in &names {
        let spirv = module(name).unwrap_or_else(|| panic!("no module {name}"));
        assert_eq!(spirv[..4], [3, 2, 35, 7], "{name} is SPIR-V");
    }
    assert_eq!(names.len(), MODULES.len());
}

#[test]
fn every_shader_file_belongs_to_a_row() {
    let glsl = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("shaders/glsl");
    for entry in std::fs::read_dir(&glsl).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if let Some(stem) = name.strip_suffix(".comp") {
            assert!(KERNELS.iter().any(|k| k.name == stem), "{name}");
        }
    }
}

#[test]
fn push_constants_fit_what_every_device_has() {
    for k in KERNELS {
        assert!(k.push_bytes <= 128 && k.push_bytes % 4 == 0, "{}", k.name);
    }
}
