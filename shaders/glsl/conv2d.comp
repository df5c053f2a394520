// Images y [n, outputs, y_height, y_width] of images x [n, inputs, height, width], each output channel with the input channels of
// its group: a direct convolution. A thread has some channels of one pixel, a workgroup the same ones of pixels side by side.
#version 460
#include "lib/types.glsl"
layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HALVES = 0; // weights are halves
layout(constant_id = 2) const uint BIAS = 0;
#include "push/conv2d.glsl"
#include "words/general.glsl"
const uint CHANNELS = CONV2D_CHANNELS;

float weight_at(uint i) {
    if (HALVES == 1) return half1(uint(U16(w).v[i]));
    return F32(w).v[i];
}

void main() {
    uint pixel = gl_GlobalInvocationID.x, pixels = y_width * y_height;
    uint outs = outputs / groups, ins = inputs / groups, tiles = (outs + CHANNELS - 1) / CHANNELS;
    uint group = gl_WorkGroupID.y / tiles, first = gl_WorkGroupID.y % tiles * CHANNELS, image = gl_WorkGroupID.z;
    if (pixel >= pixels) return; // nothing waits for it
    int left = int(pixel % y_width * stride_x) - int(pad_x), top = int(pixel / y_width * stride_y) - int(pad_y);
    uint area = kernel_x * kernel_y;
    // Channels beyond the last are those of the last again.
    uint out_at[CHANNELS];
    float sums[CHANNELS];
    [[unroll]] for (uint j = 0; j < CHANNELS; j++) {
        out_at[j] = group * outs + min(first + j, outs - 1);
        sums[j] = BIAS == 1 ? bias.v[out_at[j]] : 0.0;
    }
    for (uint c = 0; c < ins; c++) {
        uint plane = (image * inputs + group * ins + c) * width * height;
        for (uint ky = 0; ky < kernel_y; ky++) {
            int in_y = top + int(ky * dilation_y);
            if (in_y < 0 || in_y >= int(height)) continue;
            for (uint kx = 0; kx < kernel_x; kx++) {
                int in_x = left + int(kx * dilation_x);
                if (in_x < 0 || in_x >= int(width)) continue;
                float value = x.v[plane + uint(in_y) * width + uint(in_x)];
                uint at = c * area + ky * kernel_x + kx;
                [[unroll]] for (uint j = 0; j < CHANNELS; j++) sums[j] += value * weight_at(out_at[j] * ins * area + at);
            }
        }
    }
    [[unroll]] for (uint j = 0; j < CHANNELS; j++) {
        if (first + j < outs) y.v[(image * outputs + out_at[j]) * pixels + pixel] = sums[j];
    }
}
