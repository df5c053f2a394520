// A run of products of one activation row, and attention, in one dispatch; see lib/megakernel.glsl.
#version 460
#include "lib/megakernel.glsl"
