//! Lists of values of flags that a model is loaded with, as llama-bench takes them: `-t 1,2,4`, `-ub 64-512*2`, `-ctk f16,q8_0`. The
//! command line becomes one for each combination.

use std::ffi::OsString;

use super::range;

/// Flags as they are behind [`super::super::argv`], whether they are numbers, and their columns in the table.
const LISTS: &[(&str, bool, &str)] = &[
    ("--threads", true, "n_threads"),
    ("--batch-size", true, "n_batch"),
    ("--ubatch-size", true, "n_ubatch"),
    ("--gpu-layers", true, "n_gpu_layers"),
    ("--n-cpu-moe", true, "n_cpu_moe"),
    ("--cache-type-k", false, "type_k"),
    ("--cache-type-v", false, "type_v"),
];
/// Most combinations: more are a slip.
const MOST: usize = 1000;

/// The values of a list; none where it is a single value, or no list of such values.
fn values(value: &str, numbers: bool) -> Option<Vec<String>> {
    let part = |part: &str| match numbers && part.contains('-') && !part.starts_with('-') {
        true => Some(range(part).ok()?.0.iter().map(ToString::to_string).collect()),
        false => Some(vec![part.to_string()]),
    };
    let all: Vec<String> = value.split(',').map(part).collect::<Option<Vec<_>>>()?.concat();
    (all.len() > 1 || all.first().is_some_and(|one| one != value)).then_some(all)
}

/// A command line of `bench` for each combination of values, and the columns that differ.
pub fn expand(args: &[OsString]) -> (Vec<Vec<OsString>>, Vec<&'static str>) {
    let (mut lines, mut listed) = (vec![Vec::new()], Vec::new());
    for arg in args {
        let text = arg.to_str().unwrap_or_default();
        let list = LISTS.iter().find_map(|(flag, numbers, column)| {
            let value = text.strip_prefix(flag)?.strip_prefix('=')?;
            Some((flag, *column, values(value, *numbers)?))
        });
        match list.filter(|(.., values)| lines.len() * values.len() <= MOST) {
            Some((flag, column, values)) => {
                listed.push(column);
                let with = |line: &Vec<OsString>| {
                    let more = values.iter().map(|value| OsString::from(format!("{flag}={value}")));
                    more.map(|arg| [line.as_slice(), &[arg]].concat()).collect::<Vec<_>>()
                };
                lines = lines.iter().flat_map(with).collect();
            }
            None => lines.iter_mut().for_each(|line| line.push(arg.clone())),
        }
    }
    (lines, listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand_line(line: &str) -> Vec<String> {
        let args: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        expand(&args).0.iter().map(|line| line.join(" ".as_ref()).into_string().unwrap()).collect()
    }

    #[test]
    fn lists_become_command_lines() {
        assert_eq!(expand_line("bench --threads=1 -x"), ["bench --threads=1 -x"]);
        assert_eq!(
            expand_line("bench --threads=1-4*2"),
            ["bench --threads=1", "bench --threads=2", "bench --threads=4"]
        );
        let two = expand_line("bench --cache-type-k=f16,q8_0 -p 8 --ubatch-size=64,128");
        assert_eq!(two.len(), 4);
        assert_eq!(two[1], "bench --cache-type-k=f16 -p 8 --ubatch-size=128");
        // What is no list stays, and its flag says what is wrong with it.
        for one in ["bench --threads=-1", "bench --threads=4-1", "bench --gpu-layers=all", "bench --n-prompt=1,2"] {
            assert_eq!(expand_line(one), [one]);
        }
    }

    #[test]
    fn ranges_are_those_of_llama_bench() {
        let all = |text: &str| range(text).map(|range| range.0);
        assert_eq!(all("512"), Ok(vec![512]));
        assert_eq!(all("1-4"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(all("128-512+128"), Ok(vec![128, 256, 384, 512]));
        assert_eq!(all("1-100*3"), Ok(vec![1, 3, 9, 27, 81]));
        assert_eq!(all("7-7"), Ok(vec![7]));
        for wrong in ["", "x", "4-1", "1-4+0", "1-4*1", "0-4*2", "1-", "-4", "1-4+", "1-4/2", "0-4294967295"] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }
}
