/* Shim for the parts of DPDK that need C: inline functions, macros, and structure layouts. The Rust side, which declares these
 * functions in src/dpdk/ffi.rs, makes all decisions and owns all buffers. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_alarm.h>
#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_prefetch.h>

#define BURST 64

/* A received packet. */
struct td_packet {
	struct rte_mbuf *mbuf;
	uint8_t *room;     /* the whole data room with headroom */
	uint32_t room_len;
	uint32_t start;    /* offset of the first byte */
	uint32_t len;      /* bytes of the first segment */
	uint32_t total;    /* bytes of all segments */
	uint16_t segments;
	uint8_t alone;     /* the buffer has no other reference */
	uint8_t vlans;     /* number of tags that the device removed: 0 to 2 */
	uint16_t tags[2];  /* their TCIs, outer first */
};

/* A packet to send, with its bytes in the mbuf. */
struct td_departure {
	struct rte_mbuf *mbuf;
	uint32_t start;
	uint32_t len;
	uint8_t keep;      /* the mbuf (or chain) is complete: do not set its fields */
};

/* Configuration of a device. */
struct td_config {
	uint16_t queues;
	uint16_t rx_descriptors;
	uint16_t tx_descriptors;
	uint8_t interrupts; /* whether to enable receive interrupts */
	uint8_t may_wait;   /* whether a configured port that cannot start is acceptable */
	uint32_t mtu;       /* 0: unchanged */
	uint32_t frame;     /* maximum length of received frames, in bytes */
	struct rte_mempool *const *pools; /* one per queue */
};

/* Properties of a device. */
struct td_info {
	char driver[64];
	uint32_t max_queues;
	uint32_t max_mtu;
	uint32_t mtu;
	uint32_t min_room;
	int socket;
	uint8_t multi_segments; /* sends chains */
	uint8_t scatters;       /* receives chains; after start */
	uint8_t interrupts;     /* supports receive interrupts; after start */
	uint8_t started;        /* after start */
};

int td_errno(void) { return rte_errno; }

FILE *td_log_to(cookie_write_function_t *write)
{
	cookie_io_functions_t functions = { .write = write };
	FILE *file = fopencookie(NULL, "w", functions);
	if (file != NULL) {
		setvbuf(file, NULL, _IOLBF, 4096);
		rte_openlog_stream(file);
	}
	return file;
}

static void from_mbuf(struct td_packet *packet, struct rte_mbuf *mbuf)
{
	packet->mbuf = mbuf;
	packet->room = mbuf->buf_addr;
	packet->room_len = mbuf->buf_len;
	packet->start = mbuf->data_off;
	packet->len = mbuf->data_len;
	packet->total = mbuf->pkt_len;
	packet->segments = mbuf->nb_segs;
	packet->alone = RTE_MBUF_DIRECT(mbuf) && rte_mbuf_refcnt_read(mbuf) == 1;
	packet->vlans = 0;
	if (unlikely(mbuf->ol_flags & RTE_MBUF_F_RX_QINQ_STRIPPED)) {
		packet->vlans = 2;
		packet->tags[0] = mbuf->vlan_tci_outer;
		packet->tags[1] = mbuf->vlan_tci;
	} else if (unlikely(mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED)) {
		packet->vlans = 1;
		packet->tags[0] = mbuf->vlan_tci;
	}
}

uint16_t td_receive(uint16_t port, uint16_t queue, struct td_packet *packets, uint16_t count)
{
	struct rte_mbuf *burst[BURST];
	uint16_t wanted = RTE_MIN(count, BURST);
	uint16_t received = rte_eth_rx_burst(port, queue, burst, wanted);
	for (uint16_t i = 0; i < received; i++)
		rte_prefetch0(rte_pktmbuf_mtod(burst[i], void *));
	for (uint16_t i = 0; i < received; i++)
		from_mbuf(&packets[i], burst[i]);
	return received;
}

/* Sends packets. The caller keeps the packets from the returned index on, which were not sent. */
uint16_t td_send(uint16_t port, uint16_t queue, const struct td_departure *departures, uint16_t count)
{
	struct rte_mbuf *burst[BURST];
	count = RTE_MIN(count, BURST);
	for (uint16_t i = 0; i < count; i++) {
		struct rte_mbuf *mbuf = departures[i].mbuf;
		burst[i] = mbuf;
		if (departures[i].keep)
			continue;
		mbuf->data_off = departures[i].start;
		mbuf->data_len = departures[i].len;
		mbuf->pkt_len = departures[i].len;
		mbuf->nb_segs = 1;
		mbuf->next = NULL;
		mbuf->ol_flags = 0;
		mbuf->tx_offload = 0;
		mbuf->vlan_tci = 0;
	}
	return rte_eth_tx_burst(port, queue, burst, count);
}

/* Copies `bytes` to an mbuf or a chain of at most `segments`. NULL without memory (ENOMEM) or if it does not fit (EMSGSIZE). */
struct rte_mbuf *td_copy_in(struct rte_mempool *pool, const uint8_t *bytes, uint32_t len, uint16_t segments)
{
	struct rte_mbuf *head = NULL, *last = NULL;
	uint32_t done = 0;
	do {
		if (segments-- == 0) {
			rte_pktmbuf_free(head);
			rte_errno = EMSGSIZE;
			return NULL;
		}
		struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);
		if (mbuf == NULL) {
			rte_pktmbuf_free(head);
			rte_errno = ENOMEM;
			return NULL;
		}
		uint32_t part = RTE_MIN(len - done, (uint32_t)rte_pktmbuf_tailroom(mbuf));
		memcpy(rte_pktmbuf_mtod(mbuf, void *), bytes + done, part);
		mbuf->data_len = part;
		done += part;
		if (head == NULL) {
			head = mbuf;
		} else {
			last->next = mbuf;
			head->nb_segs++;
		}
		last = mbuf;
	} while (done < len);
	head->pkt_len = len;
	return head;
}

/* Copies all segments to `to`, at most `space` bytes. Returns the number of copied bytes. */
uint32_t td_copy_out(const struct rte_mbuf *mbuf, uint8_t *to, uint32_t space)
{
	uint32_t done = 0;
	for (uint16_t left = mbuf->nb_segs; mbuf != NULL && left > 0 && done < space; mbuf = mbuf->next, left--) {
		uint32_t part = RTE_MIN((uint32_t)mbuf->data_len, space - done);
		memcpy(to + done, rte_pktmbuf_mtod(mbuf, const void *), part);
		done += part;
	}
	return done;
}

/* Moves all segments into the first if they fit, and updates `packet`. Returns whether they fit. */
int td_linearise(struct td_packet *packet)
{
	struct rte_mbuf *mbuf = packet->mbuf;
	if (rte_pktmbuf_linearize(mbuf) != 0)
		return 0;
	from_mbuf(packet, mbuf);
	return 1;
}

void td_free(struct rte_mbuf *mbuf) { rte_pktmbuf_free(mbuf); }

struct rte_mempool *td_pool(const char *name, uint32_t count, uint32_t cache, uint16_t room, int socket)
{
	return rte_pktmbuf_pool_create(name, count, cache, 0, room, socket);
}

int td_pool_is_full(const struct rte_mempool *pool) { return rte_mempool_full(pool); }

void td_pool_free(struct rte_mempool *pool) { rte_mempool_free(pool); }

/* Returns the port number of a device, or -1. */
int td_port_by_name(const char *name)
{
	uint16_t port;
	return rte_eth_dev_get_port_by_name(name, &port) == 0 ? port : -1;
}

int td_info(uint16_t port, struct td_info *out)
{
	struct rte_eth_dev_info info;
	int failed = rte_eth_dev_info_get(port, &info);
	if (failed != 0)
		return failed;
	uint16_t mtu = 0;
	rte_eth_dev_get_mtu(port, &mtu);
	snprintf(out->driver, sizeof(out->driver), "%s", info.driver_name);
	out->max_queues = RTE_MIN(info.max_rx_queues, info.max_tx_queues);
	out->max_mtu = info.max_mtu;
	out->mtu = mtu;
	out->min_room = info.min_rx_bufsize;
	out->socket = rte_eth_dev_socket_id(port);
	out->multi_segments = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	out->scatters = (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
	out->interrupts = 0;
	return 0;
}

static int setup_queues(uint16_t port, const struct td_config *config, struct rte_eth_conf *conf,
			const struct rte_eth_dev_info *info, const char **step)
{
	*step = "configure";
	int failed = rte_eth_dev_configure(port, config->queues, config->queues, conf);
	uint16_t rx = config->rx_descriptors, tx = config->tx_descriptors;
	if (failed == 0) {
		*step = "size the queues of";
		failed = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
	}
	for (uint16_t queue = 0; failed == 0 && queue < config->queues; queue++) {
		struct rte_eth_rxconf rxconf = info->default_rxconf;
		struct rte_eth_txconf txconf = info->default_txconf;
		rxconf.offloads = conf->rxmode.offloads;
		txconf.offloads = conf->txmode.offloads;
		*step = "set up a receive queue of";
		failed = rte_eth_rx_queue_setup(port, queue, rx, rte_eth_dev_socket_id(port), &rxconf, config->pools[queue]);
		if (failed == 0) {
			*step = "set up a transmit queue of";
			failed = rte_eth_tx_queue_setup(port, queue, tx, rte_eth_dev_socket_id(port), &txconf);
		}
	}
	if (failed == 0) {
		*step = "start";
		failed = rte_eth_dev_start(port);
	}
	return failed;
}

/* A function to run for a port on DPDK's interrupt thread. */
struct errand {
	void (*run)(uint16_t port);
	uint16_t port;
	atomic_int done;
};

static void run_errand(void *argument)
{
	struct errand *errand = argument;
	errand->run(errand->port);
	atomic_store(&errand->done, 1);
}

/* Runs a function on the interrupt thread, as an alarm; alarms run there one after the other. memif connections are only closed
 * on that thread, because the driver closes the connection of a lost peer there, and has no lock: if another thread closed the same
 * connection concurrently, both would close each descriptor (DPDK 22.11), which could belong to other code by then. */
static void on_interrupt_thread(void (*run)(uint16_t), uint16_t port)
{
	struct errand errand = { .run = run, .port = port };
	if (rte_eal_alarm_set(1, run_errand, &errand) == 0) {
		for (int tries = 0; tries < 40000 && atomic_load(&errand.done) == 0; tries++)
			rte_delay_us_sleep(50);
		/* After two seconds, the thread is stuck. The cancellation waits for a running alarm. */
		if (atomic_load(&errand.done) == 0)
			rte_eal_alarm_cancel(run_errand, &errand);
	}
	if (atomic_load(&errand.done) == 0)
		run(port);
}

static void stop(uint16_t port) { rte_eth_dev_stop(port); }

static void stop_and_close(uint16_t port)
{
	rte_eth_dev_stop(port);
	rte_eth_dev_close(port);
}

/* Restarts a configured memif. Returns 0 or a negative errno. */
int td_restart(uint16_t port)
{
	on_interrupt_thread(stop, port);
	return rte_eth_dev_start(port);
}

/* Configures and starts a port. Returns 0, or a negative errno and the operation that failed. */
int td_start(uint16_t port, const struct td_config *config, struct td_info *out, const char **step)
{
	struct rte_eth_conf conf;
	struct rte_eth_dev_info info;
	*step = "ask about";
	int failed = rte_eth_dev_info_get(port, &info);
	if (failed == 0)
		failed = td_info(port, out);
	if (failed != 0)
		return failed;
	memset(&conf, 0, sizeof(conf));
	if (config->mtu != 0 && config->mtu <= info.max_mtu)
		conf.rxmode.mtu = config->mtu;
	if (config->queues > 1 && info.flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	uint32_t room = rte_pktmbuf_data_room_size(config->pools[0]) - RTE_PKTMBUF_HEADROOM;
	if (config->frame > room && (info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER)) {
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
		out->scatters = 1;
	}
	conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	conf.intr_conf.rxq = config->interrupts != 0;
	failed = setup_queues(port, config, &conf, &info, step);
	/* The client of a memif cannot start before its server runs. */
	out->started = failed == 0;
	if (failed != 0 && !(config->may_wait && strcmp(*step, "start") == 0))
		return failed;
	/* A device without this mode receives all packets. */
	rte_eth_promiscuous_enable(port);
	uint16_t mtu = 0;
	if (rte_eth_dev_get_mtu(port, &mtu) == 0)
		out->mtu = mtu;
	/* Most software devices accept the option but have no interrupts. */
	out->interrupts = config->interrupts && rte_eth_dev_rx_intr_ctl_q_get_fd(port, 0) >= 0 &&
		rte_eth_dev_rx_intr_enable(port, 0) == 0 && rte_eth_dev_rx_intr_disable(port, 0) == 0;
	return 0;
}

/* Stops and closes a port, and removes its device. Not thread-safe. */
int td_remove(uint16_t port)
{
	struct rte_eth_dev_info info;
	int failed = rte_eth_dev_info_get(port, &info);
	struct rte_device *device = failed == 0 ? info.device : NULL;
	if (failed == 0 && strcmp(info.driver_name, "net_memif") == 0)
		on_interrupt_thread(stop_and_close, port);
	else
		stop_and_close(port);
	return device == NULL ? failed : rte_dev_remove(device);
}

int td_link_is_up(uint16_t port)
{
	struct rte_eth_link link;
	memset(&link, 0, sizeof(link));
	return rte_eth_link_get_nowait(port, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
}

/* Counters since the start: missed for lack of descriptors, receive errors, missed for lack of buffers, send errors. */
int td_stats(uint16_t port, uint64_t *missed, uint64_t *broken, uint64_t *no_buffer, uint64_t *unsent)
{
	struct rte_eth_stats stats;
	int failed = rte_eth_stats_get(port, &stats);
	if (failed == 0) {
		*missed = stats.imissed;
		*broken = stats.ierrors;
		*no_buffer = stats.rx_nombuf;
		*unsent = stats.oerrors;
	}
	return failed;
}

/* Registers `removed`, which is called when the device disappears from the machine. */
int td_watch(uint16_t port, rte_eth_dev_cb_fn removed, void *argument)
{
	return rte_eth_dev_callback_register(port, RTE_ETH_EVENT_INTR_RMV, removed, argument);
}

int td_unwatch(uint16_t port, rte_eth_dev_cb_fn removed, void *argument)
{
	return rte_eth_dev_callback_unregister(port, RTE_ETH_EVENT_INTR_RMV, removed, argument);
}
