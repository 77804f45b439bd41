// The official OpenAI client against a running server: node check.mjs CLIENT_FOLDER BASE_URL
//
// The server answers from a script: a request that offers tools gets a call of `read`, all others get
// "Hello there." after the thought "hmm"; "fail" breaks after three pieces, "slow" goes on for ever.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [folder, baseURL] = process.argv.slice(2);
const { default: OpenAI } = createRequire(join(folder, 'package.json'))('openai');
const client = new OpenAI({ baseURL, apiKey: 'k1', maxRetries: 0, timeout: 20_000 });

const say = (content) => [{ role: 'user', content }];
const tools = [
  {
    type: 'function',
    function: { name: 'read', parameters: { type: 'object', properties: { path: { type: 'string' } } } },
  },
];

const checks = {
  async 'models list and retrieve'() {
    const models = await client.models.list();
    assert.equal(models.data[0].id, 'fake');
    assert.equal((await client.models.retrieve('fake')).owned_by, 'lily');
  },

  async 'chat'() {
    const reply = await client.chat.completions.create({ model: 'fake', messages: say('hi') });
    assert.equal(reply.choices[0].message.content, 'Hello there.');
    assert.equal(reply.choices[0].message.reasoning_content, 'hmm');
    assert.equal(reply.choices[0].finish_reason, 'stop');
    assert.equal(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens);
    assert.ok(reply._request_id);
  },

  async 'stream with usage'() {
    const stream = await client.chat.completions.create({
      model: 'fake',
      messages: say('hi'),
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = '';
    let usage = null;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta?.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, 'Hello there.');
    assert.equal(usage.completion_tokens, 5);
  },

  async 'stream helper'() {
    const stream = client.chat.completions.stream({ model: 'fake', messages: say('hi') });
    let text = '';
    stream.on('content', (piece) => (text += piece));
    const final = await stream.finalChatCompletion();
    assert.equal(text, 'Hello there.');
    assert.equal(final.choices[0].message.content, 'Hello there.');
  },

  async 'tool call and its answer'() {
    const messages = say('look');
    const reply = await client.chat.completions.create({ model: 'fake', messages, tools });
    const { message } = reply.choices[0];
    assert.equal(reply.choices[0].finish_reason, 'tool_calls');
    assert.equal(message.content, null);
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { path: 'a"ü' });
    const next = [...messages, message, { role: 'tool', tool_call_id: message.tool_calls[0].id, content: 'ok' }];
    const last = await client.chat.completions.create({ model: 'fake', messages: next });
    assert.equal(last.choices[0].message.content, 'Hello there.');
  },

  async 'tool call in a stream'() {
    const stream = client.chat.completions.stream({ model: 'fake', messages: say('look'), tools });
    const message = await stream.finalMessage();
    assert.equal(message.tool_calls[0].function.name, 'read');
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { path: 'a"ü' });
  },

  async 'tool runner'() {
    const seen = [];
    const read = {
      type: 'function',
      function: {
        name: 'read',
        parse: JSON.parse,
        parameters: tools[0].function.parameters,
        function: ({ path }) => seen.push(path) && 'ok',
      },
    };
    const runner = client.chat.completions.runTools({ model: 'fake', messages: say('look'), tools: [read] });
    assert.equal(await runner.finalContent(), 'Hello there.');
    assert.deepEqual(seen, ['a"ü']);
  },

  async 'error classes'() {
    const create = (body) => client.chat.completions.create({ model: 'fake', messages: say('hi'), ...body });
    await assert.rejects(create({ temperature: 'hot' }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.param, 'temperature');
      assert.equal(error.type, 'invalid_request_error');
      return true;
    });
    await assert.rejects(create({ messages: say('w '.repeat(5000)), stream: true }), (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError);
      assert.equal(error.code, 'context_length_exceeded');
      return true;
    });
    await assert.rejects(create({ model: 'other' }), (error) => {
      assert.ok(error instanceof OpenAI.NotFoundError);
      assert.equal(error.code, 'model_not_found');
      return true;
    });
    await assert.rejects(client.withOptions({ apiKey: 'wrong' }).models.list(), OpenAI.AuthenticationError);
    await assert.rejects(create({ messages: say('fail') }), OpenAI.InternalServerError);
  },

  async 'error in mid-stream'() {
    const stream = await client.chat.completions.create({ model: 'fake', messages: say('fail'), stream: true });
    let pieces = 0;
    await assert.rejects(
      (async () => {
        for await (const chunk of stream) pieces += chunk.choices[0]?.delta?.content ? 1 : 0;
      })(),
      OpenAI.APIError,
    );
    assert.equal(pieces, 3);
  },

  async 'abort of a stream'() {
    const stream = await client.chat.completions.create({ model: 'fake', messages: say('slow'), stream: true });
    for await (const chunk of stream) {
      if (chunk.choices[0]?.delta?.content) break;
    }
  },

  async 'abort of a buffered reply'() {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 100);
    await assert.rejects(
      client.chat.completions.create({ model: 'fake', messages: say('slow') }, { signal: controller.signal }),
      OpenAI.APIUserAbortError,
    );
  },
};

let failures = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    console.log(`ok: ${name}`);
  } catch (error) {
    failures += 1;
    console.log(`FAILED: ${name}: ${error.stack}`);
  }
}
process.exit(failures === 0 ? 0 : 1);
