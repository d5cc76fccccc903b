// A personal data server and a PLC directory on loopback, with their state in the folder given as the last argument.
// Sites of the tests, which have names below sunstead.org, are fetched from the origin SITES, which the name is told.
// PDS_HOSTNAME is the server's name. PLC_PORT is that of a directory that runs already, and then none is started here.
// Prints one line of JSON with both ports once they answer, and ends when standard input is closed.
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { Secp256k1Keypair } from '@atproto/crypto'
import { PDS, envToCfg, envToSecrets, readEnv } from '@atproto/pds'
import plc from '@did-plc/server'

const folder = process.argv.at(-1)
const fetchAnywhere = globalThis.fetch
globalThis.fetch = (input, init) => {
  const request = new Request(input, init)
  const url = new URL(request.url)
  if (!url.hostname.endsWith('.sunstead.org')) return fetchAnywhere(input, init)
  const { signal, redirect } = request
  return fetchAnywhere(process.env.SITES + url.pathname, { headers: { 'x-site': url.hostname }, signal, redirect })
}

let plcPort = Number(process.env.PLC_PORT ?? 0)
let directory
if (!plcPort) {
  directory = plc.PlcServer.create({ db: plc.Database.mock(), port: 0 })
  plcPort = (await directory.start()).address().port
}

Object.assign(process.env, {
  PDS_PORT: process.env.PDS_PORT ?? '0',
  PDS_SERVICE_HANDLE_DOMAINS: `.${process.env.PDS_HOSTNAME}`,
  PDS_DATA_DIRECTORY: folder,
  PDS_BLOBSTORE_DISK_LOCATION: path.join(folder, 'blobs'),
  PDS_DID_PLC_URL: `http://127.0.0.1:${plcPort}`,
  PDS_DEV_MODE: 'true',
  PDS_INVITE_REQUIRED: 'false',
  PDS_ADMIN_PASSWORD: 'admin',
  PDS_JWT_SECRET: randomBytes(16).toString('hex'),
  PDS_PLC_ROTATION_KEY_K256_PRIVATE_KEY_HEX: randomBytes(32).toString('hex'),
  PDS_RATE_LIMITS_ENABLED: 'false',
  LOG_ENABLED: 'false',
})
const environment = readEnv()
const server = await PDS.create(envToCfg(environment), envToSecrets(environment))
const running = await server.start()
console.log(JSON.stringify({ plc: plcPort, pds: running.address().port }))

// A DID on a line of its own: its account gets a new key in the directory, and signs with it from then on.
createInterface({ input: process.stdin }).on('line', async (did) => {
  const { actorStore, plcClient, plcRotationKey } = server.ctx
  const key = await Secp256k1Keypair.create({ exportable: true })
  await plcClient.updateAtprotoKey(did, plcRotationKey, key.did())
  const { keyLocation } = await actorStore.getLocation(did)
  await writeFile(keyLocation, await key.export())
  console.log(JSON.stringify({ rotated: key.did() }))
})
process.stdin.resume()
process.stdin.on('end', async () => {
  await server.destroy()
  await directory?.destroy()
  process.exit(0)
})
