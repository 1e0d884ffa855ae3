-- What the shop sells and what people said of it. :products and :reviews are how many; reviews of one product are not
-- stored beside each other, as they were not written at the same time.
CREATE FUNCTION words(seed text, count integer) RETURNS text LANGUAGE sql IMMUTABLE AS
    $$ SELECT string_agg(md5(seed || number), ' ') FROM generate_series(1, count) AS number $$;
SELECT setseed(0.5);
CREATE TABLE products (
    product integer PRIMARY KEY, category integer NOT NULL, title text NOT NULL, price numeric NOT NULL,
    description text NOT NULL, added timestamptz NOT NULL);
CREATE TABLE people (person integer PRIMARY KEY, name text NOT NULL, joined timestamptz NOT NULL);
CREATE TABLE reviews (
    review integer PRIMARY KEY, product integer NOT NULL, person integer NOT NULL, stars integer NOT NULL,
    body text NOT NULL, written timestamptz NOT NULL);
INSERT INTO people
    SELECT number, 'person ' || md5(number::text), timestamptz '2024-01-01' + number * interval '1 minute'
    FROM generate_series(1, :products) AS number;
INSERT INTO products
    SELECT number, number % 50, 'thing ' || md5(number::text), 1 + random() * 500, words('p' || number, 12),
        timestamptz '2024-01-01' + number * interval '3 minutes'
    FROM generate_series(1, :products) AS number;
INSERT INTO reviews
    SELECT number, 1 + floor(random() * :products), 1 + floor(random() * :products), 1 + floor(random() * 5),
        words('r' || number, 22), timestamptz '2024-01-01' + number * interval '20 seconds'
    FROM generate_series(1, :reviews) AS number;
CREATE INDEX reviews_by_product ON reviews (product);
CREATE INDEX reviews_by_person ON reviews (person);
CREATE INDEX products_by_category ON products (category, added DESC);
VACUUM (FREEZE, ANALYZE);
CHECKPOINT;
-- What fits into memory is there from the beginning.
SELECT sum(length(body)) FROM reviews;
SELECT sum(length(description)) FROM products;
