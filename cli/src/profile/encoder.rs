//! `pumex profile --mmproj`: where the time of a picture's encoder goes on a Vulkan device, by kernel.

use pumex_dialogue::projector::EncoderProfile;
use pumex_gguf::{Error, Result};

use super::super::{output, CommandEnd};
use super::Args;

/// Runs of the encoder unless `-r` says how many.
const REPETITIONS: u32 = 5;

/// Measures and prints.
pub fn main(args: &Args) -> Result<CommandEnd> {
    let of_steps = [
        (args.html.is_some(), "--html"),
        (args.layers, "--layers"),
        (args.parallel.is_some(), "--parallel"),
        (args.rows != 1, "--rows"),
        (args.depth != 0, "--depth"),
        (args.draw, "--draw"),
        (args.model.synthetic.is_some(), "--synthetic"),
        (args.model.model.model.is_some(), "--model"),
    ];
    for (given, flag) in of_steps {
        if given {
            return Err(Error::Usage(format!(
                "{flag}: expected a text model's step, found --mmproj, whose encoder has none"
            )));
        }
    }
    let (projector, file, name) = args.pictures.read(None, args.model.model.access(), &args.engine)?;
    let profile = projector.profile(&file, args.repetitions.unwrap_or(REPETITIONS) as usize)?;
    match args.json {
        true => output::json(&profile)?,
        false => output::text(&text(&profile, &name))?,
    }
    Ok(CommandEnd::Done)
}

fn text(p: &EncoderProfile, picture: &str) -> String {
    let kernels: f64 = p.kernels.iter().map(|k| k.us).sum();
    let [prepared, built, encoded, device] = [p.prepare_us, p.graph_us, p.encode_us, p.device_us].map(|us| us / 1e3);
    let mut out = format!(
        "{} on {}\n{picture}: {} rows in {:.1} ms: prepared {prepared:.1}, graph {built:.1}, \
         encoder {encoded:.1} ({device:.1} of it on the device)\n\
         with a stamp behind each dispatch: {:.1} ms\n\n",
        p.projector,
        p.device,
        p.rows,
        prepared + built + encoded,
        kernels / 1e3
    );
    let heading = ["kernel", "type", "sizes", "count", "us", "us each", "share", "TFLOP/s"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    rows.extend(p.kernels.iter().map(|k| {
        let rate = if k.flops > 0 { format!("{:.1}", k.tflop_per_s()) } else { "-".into() };
        vec![
            k.kernel.to_string(),
            k.format.unwrap_or("-").to_string(),
            k.sizes.clone(),
            k.dispatches.to_string(),
            format!("{:.0}", k.us),
            format!("{:.1}", k.us / k.dispatches as f64),
            format!("{:.1} %", 100.0 * k.us / kernels.max(1e-3)),
            rate,
        ]
    }));
    out += &output::table(&rows, &[&[false; 3][..], &[true; 5]].concat());
    out
}
