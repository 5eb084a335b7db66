// SPDX-License-Identifier: Apache-2.0
//
// The Portable NIC Architecture as its specification has it today: three blocks, MainParser,
// MainControl and MainDeparser. p4c calls this file so, too. `../pna.p4` says what each part means
// and where the two interfaces differ.

#define PNA_THREE_BLOCKS
#include "../pna.p4"
