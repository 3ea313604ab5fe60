// The checks with kafkajs: node kafkajs.js BOOTSTRAP PREFIX CHECK...
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import kafkajs from 'kafkajs'

const { ConfigResourceTypes, Kafka, logLevel } = kafkajs
const LIMIT = 20_000
const [bootstrap, prefix, ...wanted] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'interop', brokers: [bootstrap], logLevel: logLevel.NOTHING })
process.env.KAFKAJS_NO_PARTITIONER_WARNING = '1'

const until = async (condition, what) => {
  for (const end = Date.now() + LIMIT; !(await condition()); await sleep(5)) {
    assert(Date.now() < end, `after 20 s this is still not so: ${what}`)
  }
}

const numbered = (word, count) => Array.from({ length: count }, (_, number) => `${word}-${number}`).sort()

/** Connect a client, use it, disconnect. */
const using = async (client, work) => {
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.disconnect()
  }
}

const admin = work => using(kafka.admin(), work)
const plain = () => kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
const member = settings => kafka.consumer({ maxWaitTimeInMs: 100, ...settings }) // it can leave only between two Fetches
const transactional = transactionalId => kafka.producer({ transactionalId, idempotent: true, maxInFlightRequests: 1 })

const create = (topic, numPartitions = 1, configs = {}) => admin(client => {
  const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
  return client.createTopics({ topics: [{ topic, numPartitions, configEntries }], waitForLeaders: true })
})

const send = (sender, topic, values) =>
  sender.send({ topic, acks: -1, messages: values.map(value => ({ key: value, value })) })

/** Returns the values of a topic, which should be `count` values, and waits a short time for unexpected values. */
const read = (topic, count, readUncommitted = false) =>
  using(member({ groupId: `${topic}-${readUncommitted}`, readUncommitted }), async consumer => {
    const found = []
    await consumer.subscribe({ topic, fromBeginning: true })
    await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => found.push(String(message.value)) })
    await until(() => found.length >= count, `${count} records of ${topic}`)
    await sleep(700)
    return found.sort()
  })

const checks = {
  async produce(name) {
    await create(name, 2)
    const values = numbered('value', 20)
    const next = {}
    await using(plain(), async producer => {
      for (const value of values) {
        const [{ partition, baseOffset }] = await send(producer, name, [value])
        assert.equal(Number(baseOffset), next[partition] ?? 0)
        next[partition] = Number(baseOffset) + 1
      }
    })
    assert.deepEqual(await read(name, 20), values)
  },

  async commit(name) {
    await create(name, 2)
    await using(transactional(name), async producer => {
      for (const batch of ['one', 'two']) {
        const transaction = await producer.transaction()
        await send(transaction, name, numbered(batch, 4))
        await transaction.commit()
      }
    })
    assert.deepEqual(await read(name, 8), [...numbered('one', 4), ...numbered('two', 4)])
  },

  async abort(name) {
    await create(name)
    await using(transactional(name), async producer => {
      for (const [value, end] of [['1', 'commit'], ['2-aborted', 'abort'], ['3', 'commit']]) {
        const transaction = await producer.transaction()
        await send(transaction, name, [value])
        await transaction[end]()
      }
    })
    assert.deepEqual(await read(name, 2), ['1', '3'])
    assert.deepEqual(await read(name, 3, true), ['1', '2-aborted', '3'])
  },

  async fence(name) {
    await create(name)
    let told
    await using(transactional(name), zombie => using(transactional(name), async heir => {
      const old = await zombie.transaction()
      await send(old, name, ['zombie'])
      const transaction = await heir.transaction()
      await send(transaction, name, ['heir'])
      await assert.rejects(old.commit(), error => {
        told = error.type
        return ['PRODUCER_FENCED', 'INVALID_PRODUCER_EPOCH'].includes(told)
      })
      await transaction.commit()
    }))
    assert.deepEqual(await read(name, 1), ['heir'])
    return told
  },

  async 'offsets-in-transaction'(name) {
    const [source, target] = [`${name}-source`, `${name}-target`]
    await create(source)
    await create(target)
    await using(plain(), producer => send(producer, source, numbered('in', 6)))
    await using(transactional(name), async producer => {
      for (const [end, expected] of [['commit', '3'], ['abort', '3'], ['commit', '6']]) {
        await using(member({ groupId: name }), async consumer => {
          const messages = []
          await consumer.subscribe({ topic: source, fromBeginning: true })
          await consumer.run({ autoCommit: false, eachMessage: async ({ message }) => messages.push(message) })
          await until(() => messages.length >= 3, 'three messages')
          const three = messages.slice(0, 3)
          const transaction = await producer.transaction()
          await send(transaction, target, three.map(each => String(each.value).replace('in', 'out')))
          const partitions = [{ partition: 0, offset: String(Number(three[2].offset) + 1) }]
          await transaction.sendOffsets({ consumerGroupId: name, topics: [{ topic: source, partitions }] })
          await transaction[end]()
        })
        await admin(client => until(async () => {
          const [{ partitions }] = await client.fetchOffsets({ groupId: name, topics: [source] })
          return partitions[0].offset === expected
        }, `committed offset ${expected} after ${end}`))
      }
    })
    assert.deepEqual(await read(target, 6), numbered('out', 6))
  },

  async rebalance(name) {
    await create(name, 4)
    const owned = []
    const join = async number => {
      const consumer = member({ groupId: name, heartbeatInterval: 200 })
      consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => { owned[number] = payload.memberAssignment[name] ?? [] })
      await consumer.connect()
      await consumer.subscribe({ topic: name })
      await consumer.run({ eachMessage: async () => {} })
      return consumer
    }
    const first = await join(0)
    await until(() => owned[0]?.length === 4, 'one member has all partitions')
    const second = await join(1)
    await until(() => owned[0].length === 2 && owned[1]?.length === 2, 'two members have two partitions each')
    assert.equal(new Set([...owned[0], ...owned[1]]).size, 4)
    await first.disconnect()
    await until(() => owned[1].length === 4, 'the remaining member has all partitions')
    await second.disconnect()
  },

  async topics(name) {
    await create(name, 2, { 'retention.ms': '86400000' })
    await admin(async client => {
      await client.createPartitions({ topicPartitions: [{ topic: name, count: 3 }] })
      const partitions = async () => (await client.fetchTopicMetadata({ topics: [name] })).topics[0].partitions
      await until(async () => (await partitions()).length === 3, 'three partitions')
      const brokers = (await client.describeCluster()).brokers.map(each => each.nodeId)
      for (const partition of await partitions()) assert(brokers.includes(partition.replicas[0]))
      await client.deleteTopics({ topics: [name] })
      await until(async () => !(await client.listTopics()).includes(name), 'the topic is gone')
    })
  },

  async configs(name) {
    await create(name)
    await admin(async client => {
      const topic = { type: ConfigResourceTypes.TOPIC, name }
      const configEntries = [{ name: 'retention.ms', value: '86400000' }]
      await client.alterConfigs({ validateOnly: false, resources: [{ ...topic, configEntries }] })
      await until(async () => {
        const { resources } = await client.describeConfigs({ includeSynonyms: false, resources: [topic] })
        const found = Object.fromEntries(resources[0].configEntries.map(each => [each.configName, each.configValue]))
        return found['retention.ms'] === '86400000' && found['cleanup.policy'] === 'delete'
      }, 'retention.ms is altered')
    })
  },

  async 'list-offsets'(name) {
    await filled(name)
    await admin(async client => {
      const [{ low, high }] = await client.fetchTopicOffsets(name)
      assert.deepEqual([low, high], ['0', '3'])
      assert.equal((await client.fetchTopicOffsetsByTimestamp(name, 1500))[0].offset, '1')
    })
  },

  async 'delete-records'(name) {
    await filled(name)
    await admin(async client => {
      assert.equal((await client.fetchTopicOffsets(name))[0].low, '0') // deleteTopicRecords needs the topic's metadata
      await client.deleteTopicRecords({ topic: name, partitions: [{ partition: 0, offset: '2' }] })
      assert.equal((await client.fetchTopicOffsets(name))[0].low, '2')
    })
    assert.deepEqual(await read(name, 1), ['x'])
  },

  async groups(name) {
    await filled(name)
    await using(member({ groupId: name }), async consumer => {
      let count = 0
      await consumer.subscribe({ topic: name, fromBeginning: true })
      await consumer.run({ eachMessage: async () => { count += 1 } })
      await until(() => count === 3, 'three records')
      await consumer.stop()
    })
    await admin(async client => {
      const listed = async () => (await client.listGroups()).groups.filter(each => each.groupId === name).length
      assert.equal(await listed(), 1)
      assert.equal((await client.describeGroups([name])).groups[0].state, 'Empty')
      const [{ partitions }] = await client.fetchOffsets({ groupId: name, topics: [name] })
      assert.equal(partitions[0].offset, '3')
      await client.deleteGroups([name])
      assert.equal(await listed(), 0)
    })
  },
}

/** Makes a topic with three records, whose timestamps are 1000, 2000 and 3000 (ms since the epoch). */
async function filled(name) {
  await create(name, 1, { 'retention.ms': '-1' })
  const messages = ['1000', '2000', '3000'].map(timestamp => ({ value: 'x', timestamp }))
  await using(plain(), producer => producer.send({ topic: name, acks: -1, messages }))
}

/** Connect with the certificates or the user of this check. */
function secured(name) {
  const known = JSON.parse(readFileSync(process.env.INTEROP_ACCESS))
  const { sasl, ...settings } = known[Object.keys(known).find(check => name.endsWith(check))].kafkajs
  if (sasl?.token) sasl.oauthBearerProvider = async () => ({ value: sasl.token })
  return new Kafka({ clientId: name, logLevel: logLevel.NOTHING, ...settings, ...(sasl && { sasl }) })
}

/** Produce and consume. */
async function produceAndConsume(name) {
  await create(name)
  const client = secured(name)
  await using(client.producer(), producer => send(producer, name, ['x']))
  await using(client.consumer({ groupId: name, maxWaitTimeInMs: 100 }), async consumer => {
    let found
    await consumer.subscribe({ topic: name, fromBeginning: true })
    await consumer.run({ eachMessage: async ({ message }) => { found = String(message.value) } })
    await until(() => found === 'x', 'the record')
  })
}

for (const check of ['tls', 'mtls', 'sasl-plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer']) checks[check] = produceAndConsume

checks.acl = async name => {
  await create(name)
  return using(secured(name).producer(), async producer => {
    let told
    await assert.rejects(send(producer, 'interop-refused', ['x']), error => {
      told = error.type
      return told === 'TOPIC_AUTHORIZATION_FAILED'
    })
    await send(producer, name, ['x'])
    return told
  })
}

checks.quota = async name => {
  await create(name)
  return using(secured(name).producer(), async producer => {
    await send(producer, name, ['x'.repeat(57_500)]) // both the key and the value: 115,000 bytes, 1.5 s
    const began = Date.now()
    await send(producer, name, ['x'])
    const waited = (Date.now() - began) / 1000
    assert(waited >= 1, `waited ${waited} s`)
    return `waited ${waited.toFixed(1)} s`
  })
}

const say = line => console.log(JSON.stringify(line))

say({ client: 'kafkajs', version: createRequire(import.meta.url)('kafkajs/package.json').version })
for (const check of wanted) {
  const began = Date.now()
  let [result, detail] = ['not offered', '']
  if (check in checks) {
    try {
      detail = (await checks[check](`${prefix}-${check}`)) ?? ''
      result = 'pass'
    } catch (error) {
      console.error(error)
      ;[result, detail] = ['fail', String(error).replaceAll(/\s+/g, ' ')]
    }
  }
  say({ check, result, detail, seconds: (Date.now() - began) / 1000 })
}
process.exit()
