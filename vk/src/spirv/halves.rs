//! A module without loads of 16 bits, made of one that has them: whole words are loaded, of which half is taken.

use super::code::{instructions, op, Code, Ids};
use super::HEADER_WORDS;
use std::collections::HashMap;

/// Float16, Int16 and stores of 16 bits have no such replacement, nor have other storage classes.
const IRREPLACEABLE: [u32; 5] = [9, 22, 4434, 4435, 4436];
/// StorageBuffer16BitAccess.
const LOADS: u32 = 4433;
const ARRAY_STRIDE: u32 = 6;
const BUFFER_STORAGE: u32 = 5349;
/// Memory operands of a load: Aligned, and to how many bytes.
const ALIGNED: u32 = 2;

/// The module without numbers of 16 bits; the same, if it has none, and none where they are more than loaded from buffers.
pub fn without_halves(words: &[u32]) -> Option<Vec<u32>> {
    let known = Declarations::of(words)?;
    if !known.loads {
        return Some(words.to_vec());
    }
    let mut rewriter = Rewriter {
        ids: Ids { next: words[3] },
        known,
        head: Code::default(),
        body: Code::default(),
        bases: HashMap::new(),
        places: HashMap::new(),
        values: Vec::new(),
    };
    let mut functions = false;
    for next in instructions(&words[HEADER_WORDS..]) {
        let (code, operands) = next?;
        functions |= code == op::FUNCTION;
        if functions {
            rewriter.code(code, operands)?;
        } else {
            rewriter.declare(code, operands);
        }
    }
    let mut module = words[..HEADER_WORDS].to_vec();
    module[3] = rewriter.ids.next;
    module.extend(rewriter.head.words);
    module.extend(rewriter.body.words);
    Some(module)
}

/// What is declared in a module.
#[derive(Default)]
struct Declarations {
    loads: bool,
    uint: u32,
    /// Two of them.
    pair: u32,
    /// Pointers to them in buffers.
    to_uint: Option<u32>,
    /// The type of 16 bits, arrays of it, and pointers to it.
    half: u32,
    arrays: Vec<u32>,
    to_half: u32,
    /// Structs of such an array, and pointers to these.
    structs: Vec<u32>,
    to_structs: Vec<u32>,
    uints: HashMap<u32, u32>,
}

impl Declarations {
    fn of(words: &[u32]) -> Option<Declarations> {
        let mut known = Declarations::default();
        words.get(3)?;
        for next in instructions(words.get(HEADER_WORDS..)?) {
            let (code, operands) = next?;
            match (code, operands) {
                (op::FUNCTION, _) => break,
                (op::CAPABILITY, [capability]) if IRREPLACEABLE.contains(capability) => return None,
                (op::CAPABILITY, [LOADS]) => known.loads = true,
                (op::TYPE_INT, [id, 32, 0]) => known.uint = *id,
                // What is made of words comes after them.
                (op::TYPE_INT, [_, 16, _]) if known.uint == 0 || known.half != 0 => return None,
                (op::TYPE_INT, [id, 16, 0]) => known.half = *id,
                (op::TYPE_VECTOR, [id, of, 2]) if *of == known.uint => known.pair = *id,
                (op::TYPE_RUNTIME_ARRAY, [id, of]) if *of == known.half => known.arrays.push(*id),
                (op::TYPE_STRUCT, [id, of]) if known.arrays.contains(of) => known.structs.push(*id),
                (op::TYPE_POINTER, [id, BUFFER_STORAGE, of]) if *of == known.half => known.to_half = *id,
                (op::TYPE_POINTER, [id, BUFFER_STORAGE, of]) if *of == known.uint => known.to_uint = Some(*id),
                (op::TYPE_POINTER, [id, _, of]) if known.structs.contains(of) => known.to_structs.push(*id),
                (op::CONSTANT, [of, id, value]) if *of == known.uint => drop(known.uints.entry(*value).or_insert(*id)),
                _ => (),
            }
        }
        (!known.loads || known.pair != 0).then_some(known)
    }
}

/// A module on its way.
struct Rewriter {
    ids: Ids,
    known: Declarations,
    head: Code,
    body: Code,
    /// Where arrays begin: by pointer, the low word of the address.
    bases: HashMap<u32, u32>,
    /// Pointers to words of which half is meant, and the byte that it starts at, counted from a word's begin.
    places: HashMap<u32, u32>,
    /// What was loaded.
    values: Vec<u32>,
}

impl Rewriter {
    /// An instruction before the first function.
    fn declare(&mut self, code: u32, operands: &[u32]) {
        let known = &self.known;
        match (code, operands) {
            (op::CAPABILITY, [LOADS]) | (op::TYPE_INT, [_, 16, _]) => (),
            (op::NAME, [id, ..]) if *id == known.half || *id == known.to_half => (),
            (op::DECORATE, [id, ARRAY_STRIDE, _]) if known.arrays.contains(id) => {
                self.head.put(code, &[*id, ARRAY_STRIDE, 4]);
            }
            (op::TYPE_RUNTIME_ARRAY, [id, of]) if *of == known.half => self.head.put(code, &[*id, known.uint]),
            // No two types of pointers are the same.
            (op::TYPE_POINTER, [id, ..]) if *id == known.to_half => {
                if known.to_uint.is_none() {
                    self.head.put(code, &[*id, BUFFER_STORAGE, known.uint]);
                }
            }
            _ => self.head.put(code, operands),
        }
    }

    /// An instruction of a function.
    fn code(&mut self, code: u32, operands: &[u32]) -> Option<()> {
        let (uint, half) = (self.known.uint, self.known.half);
        match (code, operands) {
            // The begin of an array, which may be amid a word.
            (op::BITCAST, [of, result, pair]) if self.known.to_structs.contains(of) => {
                let [low, high, even, both] = [(); 4].map(|()| self.ids.fresh());
                let mask = self.constant(!3);
                self.body.put(op::COMPOSITE_EXTRACT, &[uint, low, *pair, 0]);
                self.body.put(op::COMPOSITE_EXTRACT, &[uint, high, *pair, 1]);
                self.body.put(op::BITWISE_AND, &[uint, even, low, mask]);
                self.body.put(op::COMPOSITE_CONSTRUCT, &[self.known.pair, both, even, high]);
                self.body.put(op::BITCAST, &[*of, *result, both]);
                self.bases.insert(*result, low);
            }
            (op::ACCESS_CHAIN, [of, result, base, member, index]) if *of == self.known.to_half => {
                let low = *self.bases.get(base)?;
                let [begin, bytes, byte, word] = [(); 4].map(|()| self.ids.fresh());
                let [one, two] = [1, 2].map(|n| self.constant(n));
                self.body.put(op::BITWISE_AND, &[uint, begin, low, two]);
                self.body.put(op::SHIFT_LEFT, &[uint, bytes, *index, one]);
                self.body.put(op::I_ADD, &[uint, byte, begin, bytes]);
                self.body.put(op::SHIFT_RIGHT, &[uint, word, byte, two]);
                let to = self.known.to_uint.unwrap_or(self.known.to_half);
                self.body.put(op::ACCESS_CHAIN, &[to, *result, *base, *member, word]);
                self.places.insert(*result, byte);
            }
            (op::LOAD, [of, result, from, ..]) if *of == half => {
                let byte = *self.places.get(from)?;
                let [word, odd, by, moved] = [(); 4].map(|()| self.ids.fresh());
                let [two, three, mask] = [2, 3, 0xffff].map(|n| self.constant(n));
                self.body.put(op::LOAD, &[uint, word, *from, ALIGNED, 4]);
                self.body.put(op::BITWISE_AND, &[uint, odd, byte, two]);
                self.body.put(op::SHIFT_LEFT, &[uint, by, odd, three]);
                self.body.put(op::SHIFT_RIGHT, &[uint, moved, word, by]);
                self.body.put(op::BITWISE_AND, &[uint, *result, moved, mask]);
                self.values.push(*result);
            }
            (op::U_CONVERT, [of, result, x]) if self.values.contains(x) => {
                if *of != uint {
                    return None;
                }
                self.body.put(op::COPY_OBJECT, &[uint, *result, *x]);
            }
            (_, [of, ..]) if *of == half => return None,
            _ => self.body.put(code, operands),
        }
        Some(())
    }

    fn constant(&mut self, value: u32) -> u32 {
        let (ids, head, uint) = (&mut self.ids, &mut self.head, self.known.uint);
        *self.known.uints.entry(value).or_insert_with(|| {
            let id = ids.fresh();
            head.put(op::CONSTANT, &[uint, id, value]);
            id
        })
    }
}
