// What convolutions of images by cooperative matrices share: a product of weights [outputs, taps] with windows [taps, pixels] of which
// a workgroup stages a tile in shared memory at a time, as halves, so that no buffer holds windows side by side. A tap is an input
// channel of the group and a place of the window.
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HALVES = 0; // weights are halves
layout(constant_id = 2) const uint BIAS = 0;
#include "words/general.glsl"
const uint TILE = CONV2D_TILE;   // outputs, and pixels
const uint STEP = 32;            // taps at a time
const uint STRIDE = STEP / 8 + 1; // uvec4 of an output or a pixel; odd, to spread banks
const int NOWHERE = 1 << 29;     // rows down to what lies beyond every image
shared uvec4 tile_w[TILE * STRIDE], tile_x[TILE * STRIDE];
shared ivec2 corner[TILE];       // left upper pixel of a window
shared ivec2 tap_at[STEP];       // pixels from there to a tap's
shared uint tap_plane[STEP];     // where its channel begins in x

uint group_outs() { return outputs / groups; }
uint tap_count() { return inputs / groups * kernel_x * kernel_y; }
uint channel_tiles() { return (group_outs() + TILE - 1) / TILE; }
uint group_of_tile() { return gl_WorkGroupID.y / channel_tiles(); }
// The tile's first output, of those of its group, and its first pixel.
uint first_out() { return gl_WorkGroupID.y % channel_tiles() * TILE; }
uint first_pixel() { return gl_WorkGroupID.x * TILE; }

void find_corners() {
    for (uint i = gl_LocalInvocationID.x; i < TILE; i += gl_WorkGroupSize.x) {
        const uint pixel = first_pixel() + i;
        corner[i] = ivec2(pixel % y_width * stride_x, pixel / y_width * stride_y) - ivec2(pad_x, pad_y);
        if (pixel >= y_width * y_height) corner[i].y = NOWHERE;
    }
}

float16_t half_of(float x) { return float16_t(clamp(x, -65504.0, 65504.0)); }
uvec4 eight_halves(float v[8]) {
    uvec4 packed;
    [[unroll]] for (uint j = 0; j < 4; j++) packed[j] = packFloat2x16(f16vec2(half_of(v[2 * j]), half_of(v[2 * j + 1])));
    return packed;
}

float weight_of(uint out_row, uint tap) {
    if (out_row >= group_outs() || tap >= tap_count()) return 0.0;
    const uint at = (group_of_tile() * group_outs() + out_row) * tap_count() + tap;
    if (HALVES == 1) return half1(uint(U16(w).v[at]));
    return F32(w).v[at];
}
float pixel_of(ivec2 from, uint tap) {
    const ivec2 at = from + tap_at[tap];
    if (at.x < 0 || at.y < 0 || at.x >= int(width) || at.y >= int(height)) return 0.0;
    return x.v[tap_plane[tap] + uint(at.y) * width + uint(at.x)];
}

// Taps from `first` on.
void stage(uint first) {
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < STEP; i += gl_WorkGroupSize.x) {
        const uint tap = first + i, area = kernel_x * kernel_y, channel = gl_WorkGroupID.z * inputs + group_of_tile() * (inputs / groups);
        tap_at[i] = ivec2(tap % kernel_x * dilation_x, tap % area / kernel_x * dilation_y);
        if (tap >= tap_count()) tap_at[i].y = NOWHERE;
        tap_plane[i] = (channel + tap / area) * width * height;
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < TILE * (STEP / 8); i += gl_WorkGroupSize.x) {
        float v[8];
        const uint out_row = i / (STEP / 8), unit = i % (STEP / 8);
        [[unroll]] for (uint j = 0; j < 8; j++) v[j] = weight_of(first_out() + out_row, first + unit * 8 + j);
        tile_w[out_row * STRIDE + unit] = eight_halves(v);
    }
    for (uint i = gl_LocalInvocationID.x; i < TILE * (STEP / 8); i += gl_WorkGroupSize.x) {
        float v[8];
        const uint pixel = i % TILE, unit = i / TILE;
        [[unroll]] for (uint j = 0; j < 8; j++) v[j] = pixel_of(corner[pixel], unit * 8 + j);
        tile_x[pixel * STRIDE + unit] = eight_halves(v);
    }
    barrier();
}

// A sum of the tile.
void put(uint row, uint col, float sum) {
    const uint out_row = first_out() + row, pixel = first_pixel() + col, pixels = y_width * y_height;
    if (out_row >= group_outs() || pixel >= pixels) return;
    const uint channel = group_of_tile() * group_outs() + out_row;
    y.v[(gl_WorkGroupID.z * outputs + channel) * pixels + pixel] = sum + (BIAS == 1 ? bias.v[channel] : 0.0);
}
