// A run of products of one activation row, and attention, in one dispatch; see lib/chain.glsl.
#version 460
#include "lib/chain.glsl"
