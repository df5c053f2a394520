//! Archives of SPIR-V modules: one for each kernel, of all formats that it is compiled for.
//!
//! A module's words are taken apart into streams of what is alike — instructions, types, results, ids, literals — which deflate
//! packs twice as well as the words themselves. Ids are told by how far they are from the last result, or, of constants, types
//! and variables, by their number among these. Which operand is what only has to be known to pack well: whatever it is taken
//! for, it comes out as it went in.

use miniz_oxide::{deflate, inflate};

/// Level of deflate: the slowest; modules are packed once.
const LEVEL: u8 = 10;
/// Words before the first instruction.
const HEADER_WORDS: usize = 5;
const OP_FUNCTION: u32 = 54;
const OP_SWITCH: u32 = 251;

/// What an operand is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    Type,
    Result,
    Id,
    Literal,
}

/// Operands of an instruction; the last one repeats.
fn operands(op: u32) -> &'static [Operand] {
    use Operand::{Id as I, Literal as L, Result as R, Type as T};
    match op {
        10 | 14 | 15 | 17 => &[L],          // extension, memory model, entry point, capability
        11 | 21 | 22 => &[R, L],            // import, integer, float
        12 => &[T, R, I, L, I],             // extended instruction
        16 | 39 | 71 | 72 | 247 => &[I, L], // execution mode, forward pointer, decorations, selection merge
        19 | 20 | 28 | 29 | 30 | 33 | 248 | 4456 => &[R, I], // void, bool, arrays, struct, function, label, matrix
        23 => &[R, I, L],                   // vector
        32 => &[R, L, I],                   // pointer
        43 | 50 => &[T, R, L],              // constants
        52 | 54 | 59 | 333..=366 => &[T, R, L, I], // specialized operation, function, variable, group operations
        61 | 81 => &[T, R, I, L],           // load, extract
        62 | 246 => &[I, I, L],             // store, loop merge
        79 | 82 | 4450 | 4459 => &[T, R, I, I, L], // shuffle, insert, dot, product of matrices
        4452 | 4453 => &[T, R, I, I, I, L], // dot with a sum
        224 | 225 | 249 | 250 | 253 => &[I], // barriers, branches, return
        OP_SWITCH => &[I, I, L, I],
        _ => &[T, R, I],
    }
}

/// Numbers in as few bytes as they need.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, mut x: u64) {
        while x >= 128 {
            self.0.push(x as u8 | 128);
            x >>= 7;
        }
        self.0.push(x as u8);
    }
}

/// Reads what [`Bytes`] holds.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    #[inline]
    fn get(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first()?;
        if *first < 128 {
            self.0 = rest;
            return Some(u64::from(*first));
        }
        self.get_long()
    }

    fn get_long(&mut self) -> Option<u64> {
        let (mut x, mut by) = (0, 0);
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            x |= u64::from(byte & 127) << by;
            if *byte < 128 {
                return Some(x);
            }
            by += 7;
            if by > 56 {
                return None;
            }
        }
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }
}

/// A number of either sign as one without.
fn unsigned(x: i64) -> u64 {
    ((x << 1) ^ (x >> 63)) as u64
}

fn signed(x: u64) -> i64 {
    (x >> 1) as i64 ^ -((x & 1) as i64)
}

/// What both sides know of a module so far.
#[derive(Default)]
struct State {
    /// The last result.
    last: u32,
    in_function: bool,
    /// Results outside functions, and the number of each among them, plus one.
    globals: Vec<u32>,
    ranks: Vec<u32>,
}

impl State {
    fn enter(&mut self, op: u32) {
        self.in_function |= op == OP_FUNCTION;
    }

    fn result(&mut self, id: u32, bound: u32) {
        self.last = id;
        if !self.in_function && id < bound {
            self.ranks.resize(bound as usize, 0);
            self.globals.push(id);
            self.ranks[id as usize] = self.globals.len() as u32;
        }
    }

    fn id(&self, id: u32) -> u64 {
        match self.ranks.get(id as usize) {
            Some(&rank) if rank > 0 => u64::from(rank - 1) << 1 | 1,
            _ => unsigned(i64::from(self.last) - i64::from(id)) << 1,
        }
    }

    fn id_of(&self, coded: u64) -> Option<u32> {
        if coded & 1 == 1 {
            return self.globals.get((coded >> 1) as usize).copied();
        }
        u32::try_from(i64::from(self.last) - signed(coded >> 1)).ok()
    }
}

/// The kind of operand `i`, if there are more kinds than it. Cases of a switch are pairs.
fn kind(op: u32, kinds: &[Operand], i: usize) -> Operand {
    if op == OP_SWITCH && i >= 2 {
        return kinds[2 + i % 2];
    }
    kinds[i.min(kinds.len() - 1)]
}

/// Streams of a module: instructions, types, results, ids, literals.
const STREAMS: usize = 5;

/// Packs a module; none if the words are no instructions one after the other.
pub fn pack(spirv: &[u8]) -> Option<Vec<u8>> {
    let words: Vec<u32> = spirv.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    let (header, mut rest) = words.split_at_checked(HEADER_WORDS)?;
    let mut streams: [Bytes; STREAMS] = Default::default();
    let mut state = State::default();
    header.iter().for_each(|w| streams[4].put(u64::from(*w)));
    while let Some(first) = rest.first() {
        let (op, len) = (first & 0xffff, (first >> 16) as usize);
        let (instruction, after) = rest.split_at_checked(len.max(1))?;
        rest = after;
        streams[0].put(u64::from(op));
        streams[0].put(len as u64);
        state.enter(op);
        let kinds = operands(op);
        for (i, &word) in instruction[1..].iter().enumerate() {
            match kind(op, kinds, i) {
                Operand::Type => streams[1].put(u64::from(word)),
                Operand::Result => {
                    streams[2].put(unsigned(i64::from(word) - i64::from(state.last) - 1));
                    state.result(word, header[3]);
                }
                Operand::Id => streams[3].put(state.id(word)),
                Operand::Literal => streams[4].put(u64::from(word)),
            }
        }
    }
    let mut all = Bytes::default();
    all.put(words.len() as u64);
    streams.iter().for_each(|s| all.put(s.0.len() as u64));
    streams.iter().for_each(|s| all.0.extend(&s.0));
    Some(deflate::compress_to_vec(&all.0, LEVEL))
}

/// What [`pack`] made of a module's SPIR-V -> the SPIR-V; none if it made nothing of the kind.
pub fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let all = inflate::decompress_to_vec(packed).ok()?;
    let mut reader = Reader(&all);
    let words = usize::try_from(reader.get()?).ok()?;
    let mut lens = [0; STREAMS];
    for len in &mut lens {
        *len = usize::try_from(reader.get()?).ok()?;
    }
    let mut streams = Vec::with_capacity(STREAMS);
    for len in lens {
        streams.push(Reader(reader.take(len)?));
    }
    let [heads, types, results, ids, literals] = streams.as_mut_slice() else { return None };
    let mut state = State::default();
    let mut out = vec![0; words.checked_mul(4)?];
    let (start, mut rest) = out.split_at_mut_checked(4 * HEADER_WORDS)?;
    let mut header = [0; HEADER_WORDS];
    for (word, bytes) in header.iter_mut().zip(start.chunks_exact_mut(4)) {
        *word = literals.get()? as u32;
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    while !rest.is_empty() {
        let (op, len) = (heads.get()? as u32, heads.get()? as u32);
        let (instruction, after) = rest.split_at_mut_checked(4 * len.max(1) as usize)?;
        rest = after;
        let (first, others) = instruction.split_at_mut(4);
        first.copy_from_slice(&(op | len << 16).to_le_bytes());
        state.enter(op);
        let kinds = operands(op);
        for (i, bytes) in others.chunks_exact_mut(4).enumerate() {
            let word = match kind(op, kinds, i) {
                Operand::Type => types.get()? as u32,
                Operand::Result => {
                    let id = (signed(results.get()?) + i64::from(state.last) + 1) as u32;
                    state.result(id, header[3]);
                    id
                }
                Operand::Id => state.id_of(ids.get()?)?,
                Operand::Literal => literals.get()? as u32,
            };
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
    Some(out)
}

/// The archive of modules by name, in their order.
pub fn write(modules: &[(String, Vec<u8>)]) -> Option<Vec<u8>> {
    let mut index = Bytes::default();
    let mut data = Vec::new();
    index.put(modules.len() as u64);
    for (name, spirv) in modules {
        let packed = pack(spirv)?;
        index.put(name.len() as u64);
        index.0.extend(name.as_bytes());
        index.put(packed.len() as u64);
        data.extend(packed);
    }
    Some([index.0, data].concat())
}

/// Name and packed SPIR-V of every module of an archive; none if it is none.
pub fn read(archive: &[u8]) -> Option<Vec<(&str, &[u8])>> {
    let mut reader = Reader(archive);
    let mut names = Vec::new();
    for _ in 0..reader.get()? {
        let len = usize::try_from(reader.get()?).ok()?;
        let name = std::str::from_utf8(reader.take(len)?).ok()?;
        names.push((name, usize::try_from(reader.get()?).ok()?));
    }
    names.into_iter().map(|(name, len)| Some((name, reader.take(len)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// A header, constants before a function, a switch in it, an instruction that no table knows, ids of both sides of the last
    /// result.
    fn module() -> Vec<u8> {
        let instructions: [&[u32]; 9] = [
            &[0x0723_0203, 0x10500, 7, 300, 0],
            &[2 << 16 | 17, u32::MAX],
            &[4 << 16 | 21, 9, 32, 0],
            &[4 << 16 | 43, 9, 299, 0xdead_beef],
            &[5 << 16 | 54, 9, 20, 0, 9],
            &[2 << 16 | 248, 21],
            &[5 << 16 | 128, 9, 22, 299, 23],
            &[7 << 16 | 251, 22, 25, 70_000, 24, 5, 25],
            &[1 << 16 | 60_000],
        ];
        bytes(&instructions.concat())
    }

    #[test]
    fn modules_come_out_as_they_went_in() {
        let one = module();
        let other = [module(), bytes(&[3 << 16 | 61_000, 0, u32::MAX])].concat();
        let archive = write(&[("a".into(), one.clone()), ("b.c".into(), other.clone())]).unwrap();
        let read = read(&archive).unwrap();
        assert_eq!(read.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["a", "b.c"]);
        assert_eq!((unpack(read[0].1), unpack(read[1].1)), (Some(one), Some(other)));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let words = module();
        assert_eq!(pack(&words[..words.len() - 8]), None, "half an instruction");
        let packed = pack(&words).unwrap();
        for len in 0..packed.len() {
            assert_eq!(unpack(&packed[..len]), None, "{len} bytes");
        }
        let archive = write(&[("a".into(), words)]).unwrap();
        assert_eq!(super::read(&archive[..archive.len() - 1]), None);
    }
}
