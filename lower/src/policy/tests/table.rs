//! ClassChoices for the shapes of usual models, as a table to read.

use super::cells::{along, each, named, tile, value, Cells};
use super::{all, matrix, AttentionSpec, Format};
use crate::policy::*;
use std::fmt::Write;

/// Outputs and inputs of products: of attention, of feed-forward layers both ways, of heads, and small ones.
const SHAPES: [(usize, usize); 5] = [(1024, 1024), (4096, 4096), (14336, 4096), (4096, 14336), (128_256, 4096)];
/// Heads, those of keys, and their width.
const HEADS: [(usize, usize, usize); 4] = [(9, 3, 64), (32, 8, 128), (64, 8, 128), (16, 8, 256)];

/// ClassChoices for a device and a weight format.
type OfFormat = fn(&Caps, &Format) -> Cells;

fn by_shape(of: impl Fn(usize, usize) -> Cells) -> Cells {
    each(SHAPES.map(|(m, k)| format!("{m} x {k}")), |name| {
        let (m, k) = SHAPES.into_iter().find(|(m, k)| *name == format!("{m} x {k}")).unwrap();
        of(m, k)
    })
}

fn few_rows(caps: &Caps, format: &Format) -> Cells {
    each(["16-bit codes", "8-bit codes", "floats", "experts"], |way| {
        by_shape(|m, k| {
            along("n", [1, GEMV_MAX_COLS], |n| {
                let activations = if *way == "8-bit codes" { ActivationQuant::Q8 } else { ActivationQuant::Q16 };
                let t = match *way {
                    "floats" => float_tile(caps, format, (m, k), n, false),
                    "experts" => expert_tile(caps, format, (m, k), activations),
                    _ => gemv_tile(caps, format, m, k, n, GemmFusion { activations, ..GemmFusion::default() }),
                };
                let fields = [("size", t.size), ("rows", t.rows), ("span", t.span), ("depth", t.depth)];
                tile(t.kernel, fields)
            })
        })
    })
}

fn many_rows_of(caps: &Caps, format: &Format) -> Cells {
    along("n", [9, 16, 64, 512], |n| {
        let asked = PackedRowsRequest { forced: None, activations: activations(caps) };
        let kernel = many_rows(caps, &[format], n, asked).map_or("none", ManyRows::kernel);
        if !matrix::takes(caps, format, n) {
            return value(kernel);
        }
        by_shape(|m, _| {
            let t = matrix::mat_tile(caps, false, format, (m, n), GemmFusion::default());
            let fields = [("size", t.size), ("split", t.split), ("tiles", t.tiles), ("turn", t.turn)];
            tile(t.kernel, fields)
        })
    })
}

fn attention(caps: &Caps) -> Cells {
    each(HEADS.map(|(all, kv, width)| format!("{all} heads of {kv}, width {width}")), |name| {
        let told = |(all, kv, width): &(usize, usize, usize)| *name == format!("{all} heads of {kv}, width {width}");
        let (all, kv, width) = HEADS.into_iter().find(told).unwrap();
        let c = AttentionSpec::causal(0, all, kv, width);
        let of = |t: AttnTile| {
            tile(
                t.kernel,
                [("size", t.size), ("span", t.span), ("least", t.least), ("heads", t.heads), ("parts", t.parts)],
            )
        };
        let flash = attn_flash_tile(&c);
        let most = all / kv;
        named([
            ("few rows", along("n", [1, 2, 8], |n| of(attn_tile(caps, &c, n, 16, most)))),
            ("few rows by matrices", along("n", [1, 2, 8], |n| of(attn_mat_tile(caps, &c, n, most)))),
            ("prompts", along("n", [9, 64, 512], |n| value(prefill_tile(caps, &c, n)))),
            ("flash", tile("", [("size", flash.size), ("heads", flash.heads), ("rows", flash.rows)])),
        ])
    })
}

fn device(caps: &Caps) -> Cells {
    let lanes = match caps.emulated_subgroups {
        true => format!("{}, emulated", caps.subgroup_size),
        false => caps.subgroup_size.to_string(),
    };
    let own: Vec<String> = caps.subgroup_sizes.iter().map(|own| format!("{} {}", own.module, own.threads)).collect();
    let (way, why) = upload_way(caps, 8);
    named([
        ("subgroups", value(lanes)),
        ("subgroups of modules", value(own.join(", "))),
        ("cores", value(cores(caps))),
        ("activations", value(activations(caps).bits())),
        ("builds ahead", value(builds_ahead(caps))),
        ("threads of a row", value(row_threads(caps))),
        ("sampling", value(sample_tile(caps))),
        ("router of 8, 128, 512 experts", value([8, 128, 512].map(|all| router_tile(caps, all, 4096)))),
        ("upload by 8 threads", value((way.threads, way.batch_bytes, way.slots, why))),
        (
            "megakernel",
            value(megakernel_tile(caps, None).map_or("none".into(), |t| format!("{} x {}", t.size, t.groups))),
        ),
    ])
}

/// The table, without the hashes.
pub fn text() -> String {
    let devices = devices::all();
    let caps = |name: &str| &devices.iter().find(|(own, _)| *own == name).unwrap().1;
    let names = || devices.iter().map(|(name, _)| *name);
    let formats = || all().map(|f| f.stem);
    let format = |stem: &str| all().find(|f| f.stem == stem).unwrap();
    let mut text = String::from(
        "# What is chosen for each known device. Products are outputs x inputs, with n rows; what is not named makes no difference.\n",
    );
    let mut add = |title: &str, cells: Cells| write!(text, "\n## {title}\n{}", cells.lines(0)).unwrap();
    add("devices", each(names(), |name| device(caps(name))));
    add("attention", each(names(), |name| attention(caps(name))));
    let of_formats: [(&str, OfFormat); 2] =
        [("products of few rows", few_rows), ("products of many rows", many_rows_of)];
    for (title, of) in of_formats {
        add(title, each(names(), |name| each(formats(), |stem| of(caps(name), format(stem)))));
    }
    text
}
