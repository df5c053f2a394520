//! Tables tested as tables: formats, kernels and compiled modules agree.

use pumex_quant::{all, tables, EXPANDED, FORMATS};
use pumex_shaders::kernels::Formats;
use pumex_shaders::{module, KERNELS};

#[test]
fn every_kernel_has_a_module_for_every_format_and_no_module_is_left_over() {
    let mut names = Vec::new();
    for k in KERNELS {
        let fits = all().filter(|f| k.formats.includes(f.stem, f.block_len));
        match k.formats {
            Formats::None => names.push(k.name.to_string()),
            Formats::Pairs(pairs) => names.extend(pairs.iter().map(|pair| format!("{}.{pair}", k.name))),
            _ => names.extend(fits.map(|f| format!("{}.{}", k.name, f.stem))),
        }
    }
    for name in &names {
        let spirv = module(name).unwrap_or_else(|| panic!("no module {name}"));
        assert_eq!(spirv[..4], [3, 2, 35, 7], "{name} is SPIR-V");
    }
    assert_eq!(names.len(), pumex_shaders::names().count());
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
        assert!((4..=128).contains(&k.push_bytes()), "{}", k.name);
    }
}

#[test]
fn fields_cover_their_block_and_arrays_start_where_each_can_be_read_whole() {
    for f in all().filter(|f| f.block_len > 1) {
        let mut at: Vec<(usize, usize)> = f.fields.iter().map(|field| (field.at, field.bytes)).collect();
        at.sort_unstable();
        let end = at.iter().fold(0, |end, (at, bytes)| {
            assert_eq!(*at, end, "{}: a gap or an overlap", f.name);
            end + bytes
        });
        assert_eq!(end, f.block_bytes, "{}", f.name);
        let mut before = 0;
        for part in f.parts() {
            let width = (1 << part.bytes.trailing_zeros()).min(16); // a plane starts at a multiple of `before`
            assert!(before % width == 0, "{} {}", f.name, part.name);
            before += part.bytes;
        }
    }
}

#[test]
fn a_structure_of_arrays_holds_the_same_bytes_field_by_field() {
    let f = pumex_quant::find(14).unwrap(); // Q6_K: four fields
    let row: Vec<u8> = (0..3 * f.block_bytes).map(|i| (i * 7 % 251) as u8).collect();
    let soa = f.soa(&row);
    assert_eq!(soa.len(), f.soa_bytes(3 * f.block_len));
    let mut at = 0;
    for field in f.fields {
        for block in row.chunks(f.block_bytes) {
            assert_eq!(soa[at..at + field.bytes], block[field.at..field.at + field.bytes]);
            at += field.bytes;
        }
    }
}

/// Codes lose nothing: of every bit of the fields they stand for there is a place, and each place is taken once.
#[test]
fn codes_take_every_bit_of_their_fields_once() {
    use pumex_quant::codes::BitSource;
    let mut formats = 0;
    for f in FORMATS {
        let Some(codes) = &f.codes else { continue };
        formats += 1;
        let kept = |name: &str| f.parts().iter().any(|p| p.name == name && !p.codes);
        let bits = |field: &pumex_quant::BlockField| 8 * field.at..8 * (field.at + field.bytes);
        let mut wanted: Vec<usize> = f.fields.iter().filter(|field| !kept(field.name)).flat_map(bits).collect();
        let places: Vec<BitSource> = (0..8 * codes.len_bytes()).map(codes.place).collect();
        let digits = places.iter().filter(|p| matches!(p, BitSource::Digit(..))).count();
        if digits > 0 {
            let mut seen: Vec<(usize, usize)> = places
                .iter()
                .filter_map(|p| if let BitSource::Digit(i, n) = p { Some((*i, *n)) } else { None })
                .collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..256).flat_map(|i| [(i, 0), (i, 1)]).collect::<Vec<_>>(), "{}", f.name);
            continue;
        }
        let mut taken: Vec<usize> =
            places.iter().filter_map(|p| if let BitSource::Bit(at) = p { Some(*at) } else { None }).collect();
        wanted.sort_unstable();
        taken.sort_unstable();
        assert_eq!(taken, wanted, "{}", f.name);
        let evens = places.iter().filter(|p| matches!(p, BitSource::Even(_))).count();
        assert!(evens == 0 || evens == f.block_len / 8, "{}", f.name);
    }
    assert_eq!(formats, 13);
}

/// What is written out is every bit of every weight's code, once, and what is left of the block: scales, and signs of shifts.
#[test]
fn wide_formats_have_every_weight_once_and_every_scale() {
    use pumex_quant::codes::BitSource;
    for f in EXPANDED {
        let codes = f.codes.as_ref().unwrap();
        let places: Vec<BitSource> = (0..8 * codes.len_bytes()).map(codes.place).collect();
        let mut weights: Vec<(usize, usize)> = places
            .iter()
            .filter_map(|p| if let BitSource::Code(_, i, n) = p { Some((*i, *n)) } else { None })
            .collect();
        let mut bits: Vec<usize> =
            places.iter().filter_map(|p| if let BitSource::Bit(at) = p { Some(*at) } else { None }).collect();
        let (taken, distinct) = (bits.len(), {
            bits.sort_unstable();
            bits.dedup();
            bits.len()
        });
        assert_eq!(taken, distinct, "{}", f.stem);
        let each = weights.len() / f.block_len;
        weights.sort_unstable();
        let wanted: Vec<_> = (0..f.block_len).flat_map(|i| (0..each).map(move |n| (i, n))).collect();
        assert_eq!(weights, wanted.get(..weights.len()).unwrap_or_default(), "{}", f.stem);
        // (bits of a weight's code, other bits, signs that follow from others) of a block.
        let evens = places.iter().filter(|p| matches!(p, BitSource::Even(_))).count();
        let expected = match f.ggml_id {
            19 | 29 => (2, 32, 0),
            21 => (4, 0, 0),
            id => panic!("{id}"),
        };
        assert_eq!((each, taken, evens), expected, "{}", f.stem);
        let file = pumex_quant::find(f.ggml_id).unwrap();
        assert!(
            file.expanded_format().is_some_and(|w| w.id == f.id) && !file.is_expanded() && f.is_expanded(),
            "{}",
            f.stem
        );
        assert!(f.soa_block_bytes() > file.soa_block_bytes(), "{}", f.stem);
    }
}

#[test]
fn tables_start_at_pairs_of_words_and_name_formats_once() {
    let mut named: Vec<pumex_quant::FormatId> = Vec::new();
    for t in tables::TABLES {
        assert!(t.at() % 2 == 0 && t.words().len() % 2 == 0, "{:?}", t.formats);
        assert_eq!(t.len_words(), t.words().len(), "{:?}", t.formats);
        named.extend(t.formats);
    }
    let count = named.len();
    named.sort_unstable();
    named.dedup();
    assert_eq!(named.len(), count);
    let words = tables::TABLES.iter().map(|t| t.words().len()).sum::<usize>();
    let bits = all().filter_map(|f| f.codes.as_ref()).map(|c| 8 * c.len_bytes()).sum::<usize>();
    assert_eq!(tables::pack_all().len(), words + bits);
}

/// Shaders make the table of such formats from four words of levels.
#[test]
fn levels_as_words_give_the_table_of_every_byte() {
    let made = tables::TABLES.iter().filter_map(|t| Some((t, t.pack_levels()?)));
    for (table, packed) in made.clone() {
        let level = |i: usize| u32::from(packed[i / 4].to_le_bytes()[i % 4]);
        let words: Vec<u32> = (0..256).map(|i| level(i & 15) | level(i >> 4) << 16).collect();
        assert_eq!(table.words(), words, "{:?}", table.formats);
    }
    assert_eq!(made.count(), 2);
}

/// Chains of two codebooks, and kernels of each, copy tables of several sizes into the same room.
#[test]
fn copies_of_a_table_fit_the_room_they_are_given() {
    for f in all() {
        let bytes = tables::of(f.id).map_or(0, |t| 4 * t.words().len());
        let mut last = 1;
        for room in [0, 4 << 10, 8 << 10, 17_000, 32 << 10] {
            let copies = pumex::policy::table_copies(f, room) as usize;
            assert!(copies.is_power_of_two() && copies >= last, "{} {room}", f.name);
            assert!(copies == 1 || (bytes > 0 && copies * bytes <= room), "{}: {copies} in {room} bytes", f.name);
            last = copies;
        }
    }
}
