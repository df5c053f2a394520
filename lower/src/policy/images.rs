//! Kernels that convolve images.

use pumex_shaders::constants::{CONV2D_CHANNELS, CONV2D_TILE};
use pumex_vk::Caps;

/// How a convolution is spread over workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dTile {
    /// Row of the kernel table.
    pub kernel: &'static str,
    /// Threads of a workgroup.
    pub size: u32,
    /// Output channels that it takes, all of one group.
    pub channels: usize,
    /// Pixels that it takes.
    pub pixels: usize,
    /// Rows, columns and inputs of a product, and subgroups, of matrices that come from shared memory.
    pub staged: Option<((u32, u32, u32), u32)>,
}

impl Conv2dTile {
    /// Constants of its pipeline, by name.
    pub fn spec(&self) -> Vec<(&'static str, u32)> {
        let shape = self.staged.map(|((m, n, k), waves)| [("MAT_M", m), ("MAT_N", n), ("MAT_K", k), ("WAVES", waves)]);
        [("SIZE", self.size)].into_iter().chain(shape.into_iter().flatten()).collect()
    }
}

/// Subgroups that share a tile.
const WAVES: u32 = 4;

/// Those that a device has, best first, the last on every device. Cooperative matrices round images and weights to halves.
pub fn conv2d_tiles(caps: &Caps) -> Vec<Conv2dTile> {
    let on =
        |tile: &Conv2dTile| tile.size <= caps.max_workgroup_invocations && caps.disabled_reason(tile.kernel).is_none();
    let tile = |kernel, size, staged| {
        let side = CONV2D_TILE as usize;
        Conv2dTile { kernel, size, channels: side, pixels: side, staged }
    };
    let group = caps.group_matrix().then(|| tile("conv2d_matrix2", 256, None));
    let shape = caps.staged_matrix().filter(|(m, _, _)| (CONV2D_TILE / m).is_multiple_of(WAVES));
    let staged =
        shape.map(|shape| tile("conv2d_staged", WAVES * caps.subgroup_of("conv2d_staged"), Some((shape, WAVES))));
    // On an H100 the matrices of workgroups were 1.1 to 1.5 times as fast as those that subgroups load.
    group.into_iter().chain(staged).filter(on).chain([direct(caps)]).collect()
}

/// Output channels of a group from which on matrices pay: those of fewer are mostly padding (a channel by itself took 4 to 7 times as
/// long by them on an H100).
const MATRIX_CHANNELS: usize = 16;

/// The best for a convolution of so many output channels of a group.
pub fn conv2d_tile(caps: &Caps, channels: usize) -> Conv2dTile {
    let wide = channels >= MATRIX_CHANNELS;
    conv2d_tiles(caps).into_iter().find(|_| wide).unwrap_or_else(|| direct(caps))
}

/// The one without matrices.
fn direct(caps: &Caps) -> Conv2dTile {
    let size = 128.max(caps.subgroup_size);
    Conv2dTile { kernel: "conv2d", size, channels: CONV2D_CHANNELS as usize, pixels: size as usize, staged: None }
}

#[cfg(test)]
mod tests {
    use super::super::devices;
    use super::*;

    #[test]
    fn every_device_convolves_and_those_with_matrices_by_them() {
        for (name, caps) in devices::all() {
            let tiles = conv2d_tiles(&caps);
            assert_eq!(tiles.last().map(|t| t.kernel), Some("conv2d"), "{name}");
            for tile in tiles {
                assert!(tile.size <= caps.max_workgroup_invocations, "{name}: {tile:?}");
                let whole = tile.staged.is_none_or(|((m, n, k), waves)| {
                    (CONV2D_TILE / m).is_multiple_of(waves) && CONV2D_TILE.is_multiple_of(n) && 32 % k == 0
                });
                assert!(whole, "{name}: {tile:?}");
            }
        }
        let kernels = |caps| conv2d_tiles(&caps).into_iter().map(|t| t.kernel).collect::<Vec<_>>();
        assert_eq!(kernels(devices::h200()), ["conv2d_matrix2", "conv2d_staged", "conv2d"]);
        assert_eq!(kernels(devices::lavapipe()), ["conv2d"]);
    }

    #[test]
    fn few_channels_of_a_group_are_convolved_without_matrices() {
        let kernel = |channels| conv2d_tile(&devices::h200(), channels).kernel;
        assert_eq!([1, 15, 16, 384].map(kernel), ["conv2d", "conv2d", "conv2d_matrix2", "conv2d_matrix2"]);
    }
}
