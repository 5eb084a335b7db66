// SPDX-License-Identifier: Apache-2.0
//
// The current Portable NIC Architecture with three blocks: MainParser, MainControl and
// MainDeparser. The file has the same name in p4c. `../pna.p4` documents the declarations and the
// differences between both interfaces.

#define PNA_THREE_BLOCKS
#include "../pna.p4"
