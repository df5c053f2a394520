//! A module without operations over subgroups, made of one that has them: the workgroup is the subgroup, and what its threads tell
//! each other goes through shared memory, between barriers. What is uniform in a subgroup is uniform in the workgroup then, so that
//! a barrier may stand wherever such an operation stood.

use super::code::{instructions, op, Code, Ids};
use super::{of_subgroups, BUILT_IN, HEADER_WORDS};
use helper::Helper;
use std::collections::HashMap;

mod helper;

/// Capabilities of what has no such replacement: partitions, matrices, rotations.
const IRREPLACEABLE: [u32; 4] = [5297, 5357, 6022, 6026];
/// The memory model of GLSL, of which plain loads and barriers are.
const GLSL450: u32 = 1;
/// SPIR-V from which on an entry point lists all variables that it uses.
const LISTS_ALL: u32 = 0x0001_0400;
const UNDEF: u32 = 1;
/// The first of the instructions that declare types, constants and variables.
const TYPE_VOID: u32 = 19;
const INPUT: u32 = 1;
const WORKGROUP_STORAGE: u32 = 4;
const WORKGROUP_SCOPE: u32 = 2;
const SUBGROUP_SCOPE: u32 = 3;
/// Barriers order shared memory, both ways: AcquireRelease, WorkgroupMemory.
const SEMANTICS: u32 = 0x8 | 0x100;

/// Built-in variables.
const LOCAL_INVOCATION_INDEX: u32 = 29;
const SUBGROUP_SIZE: u32 = 36;
const NUM_SUBGROUPS: u32 = 38;
const SUBGROUP_ID: u32 = 40;
const SUBGROUP_INVOCATION: u32 = 41;

/// Operations over subgroups.
mod group {
    pub const ELECT: u32 = 333;
    pub const ALL: u32 = 334;
    pub const ANY: u32 = 335;
    pub const BROADCAST: u32 = 337;
    pub const BROADCAST_FIRST: u32 = 338;
    pub const SHUFFLE: u32 = 345;
    pub const SHUFFLE_XOR: u32 = 346;
    pub const I_ADD: u32 = 349;
    pub const F_ADD: u32 = 350;
    pub const S_MIN: u32 = 353;
    pub const U_MIN: u32 = 354;
    pub const F_MIN: u32 = 355;
    pub const S_MAX: u32 = 356;
    pub const U_MAX: u32 = 357;
    pub const F_MAX: u32 = 358;
    /// All of them, those without a replacement too.
    pub const OPERATIONS: std::ops::RangeInclusive<u32> = 333..=366;
}

/// The module with workgroups of `threads` for subgroups; none where it has operations that have no replacement.
pub fn without_subgroups(words: &[u32], threads: u32) -> Option<Vec<u32>> {
    let known = Declarations::of(words)?;
    let mut rewriter = Rewriter::new(known, threads);
    let (mut rest, mut at) = (instructions(words.get(HEADER_WORDS..)?).peekable(), 0);
    while let Some(next) = rest.peek() {
        let (code, operands) = (*next)?;
        match code {
            op::FUNCTION => break,
            _ => rewriter.declare(code, operands, words[1] >= LISTS_ALL)?,
        }
        at += operands.len() + 1;
        rest.next();
    }
    for next in instructions(&words[HEADER_WORDS + at..]) {
        let (code, operands) = next?;
        rewriter.code(code, operands)?;
    }
    let mut module = words[..HEADER_WORDS].to_vec();
    rewriter.finish(&mut module);
    Some(module)
}

/// What is declared in a module.
#[derive(Default)]
struct Declarations {
    bound: u32,
    /// Types: unsigned and signed integers and floats of 32 bits, booleans.
    uint: Option<u32>,
    int: Option<u32>,
    float: Option<u32>,
    bool: Option<u32>,
    pointers: HashMap<[u32; 2], u32>,
    /// Types of functions of one or two parameters, by what they give and take.
    functions: HashMap<Vec<u32>, u32>,
    uints: HashMap<u32, u32>,
    /// Values of all constants.
    values: HashMap<u32, u32>,
    /// Built-ins of subgroups, by their variables.
    built_ins: HashMap<u32, u32>,
    /// The variable of a thread's number in its workgroup.
    index: Option<u32>,
    ext: Option<u32>,
}

impl Declarations {
    fn of(words: &[u32]) -> Option<Declarations> {
        let mut known = Declarations { bound: *words.get(3)?, ..Declarations::default() };
        for next in instructions(words.get(HEADER_WORDS..)?) {
            let (code, operands) = next?;
            match (code, operands) {
                (op::FUNCTION, _) => break,
                (op::MEMORY_MODEL, [_, model]) if *model != GLSL450 => return None,
                (op::CAPABILITY, [capability]) if IRREPLACEABLE.contains(capability) => return None,
                (op::EXT_INST_IMPORT, [id, ..]) => known.ext = Some(*id),
                (op::TYPE_INT, [id, 32, 0]) => known.uint = Some(*id),
                (op::TYPE_INT, [id, 32, 1]) => known.int = Some(*id),
                (op::TYPE_FLOAT, [id, 32]) => known.float = Some(*id),
                (op::TYPE_BOOL, [id]) => known.bool = Some(*id),
                (op::TYPE_POINTER, [id, storage, of]) => drop(known.pointers.insert([*storage, *of], *id)),
                (op::TYPE_FUNCTION, [id, types @ ..]) => drop(known.functions.insert(types.to_vec(), *id)),
                (op::CONSTANT, [of, id, value]) => {
                    known.values.insert(*id, *value);
                    if known.uint == Some(*of) {
                        known.uints.entry(*value).or_insert(*id);
                    }
                }
                (op::DECORATE, [id, BUILT_IN, LOCAL_INVOCATION_INDEX]) => known.index = Some(*id),
                (
                    op::DECORATE,
                    [id, BUILT_IN, built_in @ (SUBGROUP_SIZE | NUM_SUBGROUPS | SUBGROUP_ID | SUBGROUP_INVOCATION)],
                ) => {
                    known.built_ins.insert(*id, *built_in);
                }
                _ => (),
            }
        }
        Some(known)
    }
}

/// A module on its way, in the order of its parts.
struct Rewriter {
    known: Declarations,
    ids: Ids,
    threads: u32,
    head: Code,
    globals: Code,
    body: Code,
    helpers: Vec<(Helper, u32)>,
    made: Code,
    /// A word of shared memory for each thread, and pointers to such words.
    scratch: u32,
    to_word: u32,
    index: u32,
}

impl Rewriter {
    fn new(known: Declarations, threads: u32) -> Rewriter {
        let mut ids = Ids { next: known.bound };
        let (scratch, index) = (ids.fresh(), known.index.unwrap_or_else(|| ids.fresh()));
        let (head, globals, body, made) = Default::default();
        Rewriter { known, ids, threads, head, globals, body, helpers: Vec::new(), made, scratch, to_word: 0, index }
    }

    /// An instruction before the first function.
    fn declare(&mut self, code: u32, operands: &[u32], lists_all: bool) -> Option<()> {
        let of_built_in = |id: &u32| self.known.built_ins.contains_key(id);
        match code {
            op::CAPABILITY if of_subgroups(*operands.first()?) => (),
            op::ENTRY_POINT => {
                // Model, function, name, variables.
                let name = operands.get(2..)?.iter().position(|word| word.to_le_bytes().contains(&0))? + 3;
                let (front, variables) = operands.split_at_checked(name)?;
                let mut all = front.to_vec();
                all.extend(variables.iter().filter(|id| !of_built_in(id)));
                if self.known.index.is_none() {
                    all.push(self.index);
                }
                all.extend(lists_all.then_some(self.scratch));
                self.head.put(code, &all);
            }
            op::NAME | op::DECORATE if operands.first().is_some_and(of_built_in) => (),
            op::VARIABLE if operands.get(1).is_some_and(of_built_in) => (),
            UNDEF | TYPE_VOID..=op::VARIABLE => self.globals.put(code, operands),
            _ => self.head.put(code, operands),
        }
        Some(())
    }

    /// An instruction of a function.
    fn code(&mut self, code: u32, operands: &[u32]) -> Option<()> {
        match (code, operands) {
            (op::LOAD, [of, result, from, ..]) if self.known.built_ins.contains_key(from) => {
                let value = match self.known.built_ins[from] {
                    SUBGROUP_SIZE => self.uint(self.threads),
                    NUM_SUBGROUPS => self.uint(1),
                    SUBGROUP_ID => self.uint(0),
                    _ => {
                        self.body.put(op::LOAD, &[*of, *result, self.index]);
                        return Some(());
                    }
                };
                self.body.put(op::COPY_OBJECT, &[*of, *result, value]);
            }
            (op::CONTROL_BARRIER | op::MEMORY_BARRIER, _) => {
                let wide = self.uint(WORKGROUP_SCOPE);
                let mut all = operands.to_vec();
                let scopes = operands.len() - 1;
                for scope in &mut all[..scopes] {
                    if self.known.values.get(scope) == Some(&SUBGROUP_SCOPE) {
                        *scope = wide;
                    }
                }
                self.body.put(code, &all);
            }
            (operation, [of, result, _scope, operands @ ..]) if group::OPERATIONS.contains(&operation) => {
                self.operation(operation, *of, *result, operands)?;
            }
            _ => self.body.put(code, operands),
        }
        Some(())
    }

    /// An operation over the subgroup: a call of a function that does it.
    fn operation(&mut self, operation: u32, of: u32, result: u32, operands: &[u32]) -> Option<()> {
        match (operation, operands) {
            (group::ELECT, []) => {
                let (own, zero) = (self.own(), self.uint(0));
                self.body.put(op::I_EQUAL, &[of, result, own, zero]);
            }
            (group::ALL | group::ANY, [x]) => {
                let (uint, [zero, one], told) = (self.uint_type(), [0, 1].map(|n| self.uint(n)), self.ids.fresh());
                self.body.put(op::SELECT, &[uint, told, *x, one, zero]);
                let by = if operation == group::ALL { op::BITWISE_AND } else { op::BITWISE_OR };
                let (joined, call) = (self.ids.fresh(), self.helper(Helper::Reduce { by, of: uint, ext: false })?);
                self.body.put(op::FUNCTION_CALL, &[uint, joined, call, told]);
                self.body.put(op::I_NOT_EQUAL, &[of, result, joined, zero]);
            }
            (group::BROADCAST | group::SHUFFLE, [x, from]) => self.pick(of, result, *x, *from)?,
            (group::BROADCAST_FIRST, [x]) => {
                let first = self.uint(0);
                self.pick(of, result, *x, first)?;
            }
            (group::SHUFFLE_XOR, [x, mask]) => {
                let (uint, own, from) = (self.uint_type(), self.own(), self.ids.fresh());
                self.body.put(op::BITWISE_XOR, &[uint, from, own, *mask]);
                self.pick(of, result, *x, from)?;
            }
            (_, [0, x]) => {
                let (by, ext) = match operation {
                    group::I_ADD => (op::I_ADD, false),
                    group::F_ADD => (op::F_ADD, false),
                    group::F_MIN => (37, true),
                    group::U_MIN => (38, true),
                    group::S_MIN => (39, true),
                    group::F_MAX => (40, true),
                    group::U_MAX => (41, true),
                    group::S_MAX => (42, true),
                    _ => return None,
                };
                let call = self.helper(Helper::Reduce { by, of, ext })?;
                self.body.put(op::FUNCTION_CALL, &[of, result, call, *x]);
            }
            _ => return None,
        }
        Some(())
    }

    /// What thread `from` has for `x`.
    fn pick(&mut self, of: u32, result: u32, x: u32, from: u32) -> Option<()> {
        let call = self.helper(Helper::Pick { of })?;
        self.body.put(op::FUNCTION_CALL, &[of, result, call, x, from]);
        Some(())
    }

    /// The thread's number.
    fn own(&mut self) -> u32 {
        let (uint, own) = (self.uint_type(), self.ids.fresh());
        self.body.put(op::LOAD, &[uint, own, self.index]);
        own
    }

    fn uint_type(&mut self) -> u32 {
        let (ids, globals) = (&mut self.ids, &mut self.globals);
        *self.known.uint.get_or_insert_with(|| {
            let id = ids.fresh();
            globals.put(op::TYPE_INT, &[id, 32, 0]);
            id
        })
    }

    fn bool_type(&mut self) -> u32 {
        let (ids, globals) = (&mut self.ids, &mut self.globals);
        *self.known.bool.get_or_insert_with(|| {
            let id = ids.fresh();
            globals.put(op::TYPE_BOOL, &[id]);
            id
        })
    }

    /// A constant.
    fn uint(&mut self, value: u32) -> u32 {
        let of = self.uint_type();
        let (ids, globals) = (&mut self.ids, &mut self.globals);
        *self.known.uints.entry(value).or_insert_with(|| {
            let id = ids.fresh();
            globals.put(op::CONSTANT, &[of, id, value]);
            id
        })
    }

    fn pointer(&mut self, storage: u32, of: u32) -> u32 {
        let (ids, globals) = (&mut self.ids, &mut self.globals);
        *self.known.pointers.entry([storage, of]).or_insert_with(|| {
            let id = ids.fresh();
            globals.put(op::TYPE_POINTER, &[id, storage, of]);
            id
        })
    }

    /// The module's words behind its header.
    fn finish(mut self, module: &mut Vec<u32>) {
        if self.to_word == 0 {
            self.declare_scratch();
        }
        if self.known.index.is_none() {
            let uint = self.uint_type();
            let pointer = self.pointer(INPUT, uint);
            self.head.put(op::DECORATE, &[self.index, BUILT_IN, LOCAL_INVOCATION_INDEX]);
            self.globals.put(op::VARIABLE, &[pointer, self.index, INPUT]);
        }
        module[3] = self.ids.next;
        for part in [self.head, self.globals, self.body, self.made] {
            module.extend(part.words);
        }
    }

    /// Shared memory of a word for each thread.
    fn declare_scratch(&mut self) {
        let (uint, len, array) = (self.uint_type(), self.uint(self.threads), self.ids.fresh());
        self.globals.put(op::TYPE_ARRAY, &[array, uint, len]);
        let pointer = self.pointer(WORKGROUP_STORAGE, array);
        self.globals.put(op::VARIABLE, &[pointer, self.scratch, WORKGROUP_STORAGE]);
        self.to_word = self.pointer(WORKGROUP_STORAGE, uint);
    }
}
