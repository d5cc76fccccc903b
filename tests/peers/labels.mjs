// Reads a label stream with the reference's own Subscription, and checks each signature with the reference's own code.
// Arguments: the labeler's DID document, the origin at which its host is reached, the cursor ("": none), and how many
// messages to read. Prints one line of JSON a message or label. The Subscription reconnects by itself where the
// connection breaks; an error frame ends it.
import { Subscription } from '@atproto/xrpc-server'
import { verifySignature } from '@atproto/crypto'
import { getDidKeyFromMultibase } from '@atproto/identity'
import { getServiceEndpoint, getVerificationMaterial } from '@atproto/common-web'
import { encode } from '@atproto/lex-cbor'

const [document, service, first, count] = process.argv.slice(-4)
const tell = (line) => console.log(JSON.stringify(line))
const did = JSON.parse(document)
const key = getDidKeyFromMultibase(getVerificationMaterial(did, 'atproto_label'))
tell({ key, endpoint: getServiceEndpoint(did, { id: '#atproto_labeler', type: 'AtprotoLabeler' }) })

let cursor = first === '' ? undefined : Number(first)
let left = Number(count)
const stream = new Subscription({
  service,
  method: 'com.atproto.label.subscribeLabels',
  maxReconnectSeconds: 1,
  getParams: () => (cursor === undefined ? {} : { cursor }),
  validate: (message) => message,
  onReconnectError: (error) => tell({ reconnect: error.code }),
})
try {
  while (left > 0) {
    for await (const message of stream) {
      if (message.labels === undefined) tell(message)
      for (const { sig, ...label } of message.labels ?? []) {
        tell({ seq: message.seq, ...label, valid: await verifySignature(key, encode(label), sig) })
      }
      cursor = message.seq ?? cursor
      if (--left === 0) break
    }
  }
} catch (error) {
  tell({ error: error.error ?? error.code ?? error.message })
}
process.exit(0)
