#include "shims.h"
#include <rte_eal.h>
#include <rte_errno.h>

int tb_eal_init(int argc, char **argv) {
    int used = rte_eal_init(argc, argv);
    return used < 0 ? -rte_errno : 0;
}

void tb_eal_cleanup(void) {
    rte_eal_cleanup();
}
