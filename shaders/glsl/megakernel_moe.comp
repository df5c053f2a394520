// As megakernel.comp, of models whose layers have experts: the router and its choice are in it, too.
#version 460
#define OF_EXPERTS
#include "lib/megakernel.glsl"
