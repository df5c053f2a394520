//! What a pipeline must know of a module before the driver sees it, read from the SPIR-V itself: whether it uses subgroups, and
//! the size of its workgroups.

mod code;
mod halves;
mod subgroups;

pub use halves::without_halves;
pub use subgroups::without_subgroups;

use code::op;

const MAGIC: u32 = 0x0723_0203;
const HEADER_WORDS: usize = 5;

const LOCAL_SIZE: u32 = 17;
const LOCAL_SIZE_ID: u32 = 38;
const SPEC_ID: u32 = 1;
const BUILT_IN: u32 = 11;
const WORKGROUP_SIZE: u32 = 25;

/// Capabilities whose instructions and built-ins depend on how a subgroup is made up: GroupNonUniform and its kin,
/// SubgroupBallotKHR, SubgroupVoteKHR, GroupNonUniformPartitionedNV, CooperativeMatrixKHR, GroupNonUniformRotateKHR.
fn of_subgroups(capability: u32) -> bool {
    matches!(capability, 61..=68 | 4423 | 4431 | 5297 | 6022 | 6026)
}

/// A number of the workgroup's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Fixed(u32),
    /// A specialization constant, and what it is if nothing is said.
    Special(u32, u32),
}

/// What is known of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Whether it uses subgroups at all.
    pub subgroups: bool,
    local_size: [Size; 3],
}

impl Module {
    /// Reads a compute module's words; none if they are not SPIR-V, or do not say the size of a workgroup.
    pub fn read(words: &[u32]) -> Option<Module> {
        if words.first() != Some(&MAGIC) {
            return None;
        }
        let mut found = ModuleFacts::default();
        for next in code::instructions(words.get(HEADER_WORDS..)?) {
            let (code, operands) = next?;
            if code == op::FUNCTION {
                break;
            }
            found.take(code, operands)?;
        }
        let subgroups = found.subgroups;
        found.local_size().map(|local_size| Module { subgroups, local_size })
    }

    /// Threads of a workgroup in x, y and z, with these specialization constants.
    pub fn local_size(&self, constants: &[(u32, u32)]) -> [u32; 3] {
        self.local_size.map(|size| match size {
            Size::Fixed(n) => n,
            Size::Special(id, usual) => constants.iter().find(|c| c.0 == id).map_or(usual, |c| c.1),
        })
    }
}

/// What was met on the way. Ids are those of results.
#[derive(Default)]
struct ModuleFacts {
    subgroups: bool,
    literal: Option<[u32; 3]>,
    by_id: Option<[u32; 3]>,
    /// The constant that stands for the size, which goes before what the entry point says.
    built_in: Option<u32>,
    special: Vec<(u32, u32)>,
    constants: Vec<(u32, u32)>,
    composites: Vec<(u32, [u32; 3])>,
}

impl ModuleFacts {
    /// Takes note of an instruction; none if it is cut off.
    fn take(&mut self, code: u32, operands: &[u32]) -> Option<()> {
        let three = |from: usize| operands.get(from..from + 3).and_then(|part| <[u32; 3]>::try_from(part).ok());
        match code {
            op::CAPABILITY => self.subgroups |= of_subgroups(*operands.first()?),
            op::EXECUTION_MODE if operands.get(1) == Some(&LOCAL_SIZE) => self.literal = Some(three(2)?),
            op::EXECUTION_MODE_ID if operands.get(1) == Some(&LOCAL_SIZE_ID) => self.by_id = Some(three(2)?),
            op::DECORATE if operands.get(1) == Some(&SPEC_ID) => self.special.push((operands[0], *operands.get(2)?)),
            op::DECORATE if operands.get(1..3) == Some(&[BUILT_IN, WORKGROUP_SIZE]) => {
                self.built_in = Some(operands[0]);
            }
            op::CONSTANT | op::SPEC_CONSTANT => self.constants.push((*operands.get(1)?, *operands.get(2)?)),
            op::CONSTANT_COMPOSITE | op::SPEC_CONSTANT_COMPOSITE => {
                self.composites.extend(three(2).map(|parts| (operands[1], parts)));
            }
            _ => (),
        }
        Some(())
    }

    fn local_size(&self) -> Option<[Size; 3]> {
        let composite = |id: u32| self.composites.iter().find(|c| c.0 == id).map(|c| c.1);
        match self.built_in.map(composite).unwrap_or(self.by_id) {
            Some(ids) => Some([self.size(ids[0])?, self.size(ids[1])?, self.size(ids[2])?]),
            None => self.literal.map(|size| size.map(Size::Fixed)),
        }
    }

    fn size(&self, id: u32) -> Option<Size> {
        let value = self.constants.iter().find(|c| c.0 == id)?.1;
        let special = self.special.iter().find(|c| c.0 == id);
        Some(special.map_or(Size::Fixed(value), |(_, spec_id)| Size::Special(*spec_id, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(code: u32, operands: &[u32]) -> Vec<u32> {
        let mut words = vec![(operands.len() as u32 + 1) << 16 | code];
        words.extend(operands);
        words
    }

    fn module(instructions: &[Vec<u32>]) -> Vec<u32> {
        let mut words = vec![MAGIC, 0x0001_0500, 0, 100, 0];
        instructions.iter().for_each(|i| words.extend(i));
        words
    }

    #[test]
    fn subgroups_and_sizes_are_those_of_the_module() {
        let fixed = [
            instruction(op::CAPABILITY, &[1]),
            instruction(op::EXECUTION_MODE, &[4, LOCAL_SIZE, 64, 2, 1]),
            instruction(op::FUNCTION, &[1, 2, 0, 3]),
            instruction(op::CAPABILITY, &[61]), // not looked at: capabilities come first
        ];
        let found = Module::read(&module(&fixed)).unwrap();
        assert_eq!((found.subgroups, found.local_size(&[(0, 7)])), (false, [64, 2, 1]));
        let special = [
            instruction(op::CAPABILITY, &[63]),
            instruction(op::EXECUTION_MODE, &[4, LOCAL_SIZE, 1, 1, 1]),
            instruction(op::DECORATE, &[10, SPEC_ID, 5]),
            instruction(op::DECORATE, &[12, BUILT_IN, WORKGROUP_SIZE]),
            instruction(op::SPEC_CONSTANT, &[6, 10, 32]),
            instruction(op::CONSTANT, &[6, 11, 1]),
            instruction(op::SPEC_CONSTANT_COMPOSITE, &[8, 12, 10, 11, 11]),
        ];
        let found = Module::read(&module(&special)).unwrap();
        assert_eq!((found.subgroups, found.local_size(&[])), (true, [32, 1, 1]));
        assert_eq!(found.local_size(&[(4, 9), (5, 256)]), [256, 1, 1]);
    }

    #[test]
    fn what_is_no_module_is_none() {
        let whole = module(&[instruction(op::EXECUTION_MODE, &[4, LOCAL_SIZE, 64, 1, 1])]);
        assert!(Module::read(&whole).is_some());
        assert_eq!(Module::read(&whole[..whole.len() - 1]), None, "cut off");
        assert_eq!(Module::read(&module(&[])), None, "no size");
        assert_eq!(Module::read(&module(&[vec![0]])), None, "an instruction of no words");
        assert_eq!(Module::read(&[]), None);
        assert_eq!(Module::read(&[1, 2, 3, 4, 5, 6]), None);
    }
}
