// Reads one line of JSON on standard input: {documents, did, plc, pds, foreign, records}. Checks with the reference code
// that each document is a lexicon, that each resolves by its proof from the account `did`, and that the records are valid
// by these and by documents of others (`foreign`).
// Prints one line of JSON: the NSIDs that resolved, and one sentence for each record that is not valid.
import { createInterface } from 'node:readline'
import { lexiconDocumentSchema } from '@atproto/lex-document'
import { LexResolver } from '@atproto/lex-resolver'
import { Lexicons } from '@atproto/lexicon'

const [line] = await createInterface({ input: process.stdin })[Symbol.asyncIterator]().next().then((one) => [one.value])
const { documents, did, plc, pds, foreign, records } = JSON.parse(line)
const ports = { 'plc.directory': plc, 'pds.example.test': pds }
const reach = (input, init) => {
  const request = new Request(input, init)
  const url = new URL(request.url)
  return fetch(`http://127.0.0.1:${ports[url.hostname]}${url.pathname}${url.search}`, { headers: request.headers })
}
for (const document of documents) lexiconDocumentSchema.parse(document)
const resolver = new LexResolver({ fetch: reach, hooks: { onResolveAuthority: () => did } })
const resolved = []
for (const { id } of documents) {
  const { lexicon } = await resolver.get(id)
  if (lexicon.id === id) resolved.push(id)
}
const strongRef = {
  lexicon: 1,
  id: 'com.atproto.repo.strongRef',
  defs: {
    main: {
      type: 'object',
      required: ['uri', 'cid'],
      properties: { uri: { type: 'string', format: 'at-uri' }, cid: { type: 'string', format: 'cid' } },
    },
  },
}
const known = new Lexicons([strongRef, ...foreign, ...documents.filter((one) => one.defs.main.type !== 'permission-set')])
const invalid = []
for (const record of records) {
  const told = known.validate(record.$type, record)
  if (!told.success) invalid.push(told.error.message)
}
console.log(JSON.stringify({ resolved, invalid }))
